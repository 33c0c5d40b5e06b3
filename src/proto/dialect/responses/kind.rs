//! The 58 documented stream types, and what each is to the interpreter.

/// What an event type asks of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    TextDone,
    Refusal,
    RefusalDone,
    Reasoning,
    ReasoningDone,
    Summary,
    SummaryDone,
    Arguments,
    ArgumentsDone,
    PartAdded,
    PartDone,
    ItemAdded,
    ItemDone,
    /// Output without text; the word for it.
    Opaque(&'static str),
    Lifecycle,
    KeepAlive,
    /// It carries the response without an end: created, queued, in progress.
    Created,
    Completed,
    Incomplete,
    /// An error event. It gets here only when it says nothing about the error.
    Failed,
    Unknown,
}

impl Kind {
    /// What this event type is.
    ///
    /// docs/providers.md#openai-responses/events; `keepalive` is
    /// undocumented there and takes a sequence number all the same.
    pub(super) fn of(event_type: &str) -> Self {
        match event_type {
            "response.output_text.delta" => Self::Text,
            "response.output_text.done" => Self::TextDone,
            "response.output_text.annotation.added" => Self::Opaque("annotation"),
            "response.refusal.delta" => Self::Refusal,
            "response.refusal.done" => Self::RefusalDone,
            "response.reasoning_text.delta" => Self::Reasoning,
            "response.reasoning_text.done" => Self::ReasoningDone,
            "response.reasoning_summary_part.added" | "response.reasoning_summary_part.done" => {
                Self::Lifecycle
            }
            "response.reasoning_summary_text.delta" => Self::Summary,
            "response.reasoning_summary_text.done" => Self::SummaryDone,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                Self::Arguments
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                Self::ArgumentsDone
            }
            "response.content_part.added" => Self::PartAdded,
            "response.content_part.done" => Self::PartDone,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.queued" | "response.created" | "response.in_progress" => Self::Created,
            "response.completed" => Self::Completed,
            "response.incomplete" => Self::Incomplete,
            "response.failed" | "error" => Self::Failed,
            "keepalive" | "ping" => Self::KeepAlive,
            "response.mcp_call_arguments.delta" => Self::Opaque("mcp_call_arguments"),
            "response.code_interpreter_call_code.delta" => Self::Opaque("code_interpreter_code"),
            "response.image_generation_call.partial_image" => Self::Opaque("partial_image"),
            "response.shell_call_command.delta" => Self::Opaque("shell_call_command"),
            "response.shell_call_output_content.delta" => Self::Opaque("shell_call_output"),
            "response.audio.delta" => Self::Opaque("audio"),
            "response.audio.transcript.delta" => Self::Opaque("audio_transcript"),
            "response.mcp_call_arguments.done"
            | "response.mcp_call.in_progress"
            | "response.mcp_call.completed"
            | "response.mcp_call.failed"
            | "response.mcp_list_tools.in_progress"
            | "response.mcp_list_tools.completed"
            | "response.mcp_list_tools.failed"
            | "response.web_search_call.in_progress"
            | "response.web_search_call.searching"
            | "response.web_search_call.completed"
            | "response.file_search_call.in_progress"
            | "response.file_search_call.searching"
            | "response.file_search_call.completed"
            | "response.code_interpreter_call.in_progress"
            | "response.code_interpreter_call.interpreting"
            | "response.code_interpreter_call.completed"
            | "response.code_interpreter_call_code.done"
            | "response.image_generation_call.in_progress"
            | "response.image_generation_call.generating"
            | "response.image_generation_call.completed"
            | "response.shell_call_command.added"
            | "response.shell_call_command.done"
            | "response.shell_call_output_content.done"
            | "response.audio.done"
            | "response.audio.transcript.done" => Self::Lifecycle,
            _ => Self::Unknown,
        }
    }
}
