//! stdout of the demo: lines of at most 80 columns, and tokens as they come.

use crate::out::printable;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Columns of a line, the usual width of a terminal.
const WIDTH: usize = 80;

/// How a line is meant; on a terminal this is its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    /// What is going on in the background.
    Quiet,
    Bad,
    Decision,
    Good,
}

impl Tone {
    /// The SGR parameter of ECMA-48 for it.
    const fn colour(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Title => "1",
            Self::Quiet => "2",
            Self::Bad => "31",
            Self::Decision => "36",
            Self::Good => "32",
        }
    }
}

/// stdout. Each piece is flushed; a reader that went away is no error.
pub(super) struct Screen {
    /// `None` when nobody reads any more.
    sink: Option<Box<dyn Write + Send>>,
    colours: bool,
    /// Whether anything but JSON is written.
    narrates: bool,
    /// Columns of the line of tokens that is being written; 0 when none is.
    column: usize,
    /// Whether white space stands before the next token.
    spaced: bool,
}

impl Screen {
    /// stdout, with colours on a terminal unless `NO_COLOR` is set
    /// (<https://no-color.org>) or the terminal is a dumb one.
    pub(super) fn stdout(narrates: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let stdout = io::stdout();
        let colours = stdout.is_terminal() && !dumb && !set("NO_COLOR");
        Self::new(Box::new(stdout), colours, narrates)
    }

    fn new(sink: Box<dyn Write + Send>, colours: bool, narrates: bool) -> Self {
        Self {
            sink: Some(sink),
            colours,
            narrates,
            column: 0,
            spaced: false,
        }
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.end_tokens();
        self.narrate("\n");
    }

    /// A paragraph: `lead` in front of the first line, the others indented as far.
    pub(super) fn say(&mut self, tone: Tone, lead: &str, text: &str) {
        self.end_tokens();
        let indent = " ".repeat(lead.chars().count());
        let mut lines = String::new();
        for (number, line) in wrapped(&printable(text), WIDTH.saturating_sub(indent.len()))
            .iter()
            .enumerate()
        {
            let start = if number == 0 { lead } else { indent.as_str() };
            let line = format!("{start}{line}");
            lines.push_str(&self.painted(tone, line.trim_end()));
            lines.push('\n');
        }
        self.narrate(&lines);
    }

    /// Lines that are laid out already.
    pub(super) fn block(&mut self, text: &str) {
        self.end_tokens();
        self.narrate(text);
    }

    /// A piece of an answer's text, right behind the last one. All of them are one
    /// paragraph, wherever the text itself breaks its lines.
    pub(super) fn token(&mut self, text: &str) {
        const INDENT: usize = 5;
        let mut out = String::new();
        for piece in printable(text).split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            let space = usize::from(self.spaced && self.column > 0);
            let end = self
                .column
                .saturating_add(space)
                .saturating_add(word.chars().count());
            if word.is_empty() {
                self.spaced = true;
                continue;
            }
            if self.column == 0 || end > WIDTH {
                out.push_str(if self.column == 0 { "" } else { "\n" });
                out.push_str(&" ".repeat(INDENT));
                self.column = INDENT.saturating_add(word.chars().count());
            } else {
                out.push_str(if space == 0 { "" } else { " " });
                self.column = end;
            }
            out.push_str(word);
            self.spaced = word.len() < piece.len();
        }
        self.narrate(&out);
    }

    /// Ends a line of tokens, if one is being written.
    pub(super) fn end_tokens(&mut self) {
        if self.column > 0 {
            self.column = 0;
            self.spaced = false;
            self.narrate("\n");
        }
    }

    /// One value as one line of JSON, narrating or not.
    pub(super) fn json(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        let line = serde_json::to_string(value)?;
        self.end_tokens();
        self.write(&format!("{line}\n"));
        Ok(())
    }

    fn painted(&self, tone: Tone, line: &str) -> String {
        match tone.colour() {
            "" => line.to_owned(),
            _ if !self.colours => line.to_owned(),
            colour => format!("\x1b[{colour}m{line}\x1b[0m"),
        }
    }

    fn narrate(&mut self, text: &str) {
        if self.narrates {
            self.write(text);
        }
    }

    fn write(&mut self, text: &str) {
        let Some(sink) = &mut self.sink else { return };
        let written = sink.write_all(text.as_bytes());
        if written.and_then(|()| sink.flush()).is_err() {
            // What is not written is in the journals, and the exit code tells the rest.
            self.sink = None;
        }
    }
}

/// The text in lines of at most so many columns, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let needed = line.chars().count().saturating_add(word.chars().count());
        if !line.is_empty() && needed >= width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn screen(colours: bool, narrates: bool) -> (Screen, Shared) {
        let sink = Shared::default();
        (Screen::new(Box::new(sink.clone()), colours, narrates), sink)
    }

    #[test]
    fn no_line_is_wider_than_eighty_columns_and_no_word_is_lost() {
        let (mut screen, sink) = screen(false, true);
        let words: Vec<String> = (1..=60).map(|n| format!("word{n}")).collect();
        screen.say(Tone::Bad, "   x ", &words.join(" "));
        for word in &words {
            screen.token(&format!(" {word}"));
        }
        screen.say(Tone::Plain, "   ", "end");
        let text = sink.text();
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let twice: Vec<&str> = words.iter().chain(&words).map(String::as_str).collect();
        let told: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(told[0], "x");
        assert_eq!(told[1..told.len() - 1], twice);
        assert!(
            text.ends_with("\n   end\n"),
            "tokens end before a line begins: {text}"
        );
        assert!(text.lines().all(|line| line.trim_end() == line), "{text:?}");
    }

    #[test]
    fn a_models_text_does_not_steer_the_terminal() {
        let (mut screen, sink) = screen(true, true);
        screen.token("a\x1b[2Jb");
        screen.say(Tone::Plain, "", "c\x1b]0;d");
        assert!(!sink.text().contains('\x1b'), "{:?}", sink.text());
    }

    #[test]
    fn colours_are_for_terminals_only() {
        for (colours, expected) in [(false, "no\n"), (true, "\x1b[31mno\x1b[0m\n")] {
            let (mut screen, sink) = screen(colours, true);
            screen.say(Tone::Bad, "", "no");
            assert_eq!(sink.text(), expected);
        }
    }

    #[test]
    fn with_json_nothing_else_is_written() {
        let (mut screen, sink) = screen(false, false);
        screen.say(Tone::Title, "", "title");
        screen.token("token");
        screen.gap();
        screen.block("table\n");
        screen.json(&[1, 2]).unwrap();
        assert_eq!(sink.text(), "[1,2]\n");
    }
}
