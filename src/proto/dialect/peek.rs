//! What can be said of an event without an interpreter.

use crate::proto::sse::Event;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The provider's own number of an event, if it has one.
///
/// Asked before an interpreter reads the event: one that a resume brought a
/// second time must not be read twice.
pub fn sequence_of(event: &Event) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        sequence_number: Option<u64>,
    }
    let numbered: Numbered = serde_json::from_str(&event.data).ok()?;
    numbered.sequence_number
}

/// The response that an event is about, if it says so: those of the start and the
/// end of a response do.
///
/// Asked, too, before an interpreter reads the event: an event that is passed
/// over for its number may be another response's.
pub fn response_id_of(event: &Event) -> Option<String> {
    #[derive(Deserialize)]
    struct About {
        response: Option<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        id: Option<String>,
    }
    let about: About = serde_json::from_str(&event.data).ok()?;
    about.response?.id
}

/// Whether the data of an event that no blank line ended is whole all the same:
/// one JSON value, or the end marker.
///
/// The WHATWG rule discards such an event. Providers are seen to close right
/// behind their last data line, so a last event that is provably whole counts,
/// and one that is not never does.
pub fn is_whole_payload(data: &str) -> bool {
    let data = data.trim();
    data.starts_with("[DONE]")
        || (data.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(data).is_ok())
}

/// Whether a text is the beginning of a JSON document and not one: it breaks off.
pub fn is_cut_payload(json: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(json).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_value_or_the_end_marker_is_whole() {
        for whole in ["{}", " {\"a\":[1]} ", "[1]", "[DONE]"] {
            assert!(is_whole_payload(whole), "{whole}");
        }
        for cut in [
            "",
            "{",
            "{\"a\":\"tw",
            "[DON",
            "[DONE",
            "12",
            "tru",
            "{} {}",
            "\"text\"",
        ] {
            assert!(!is_whole_payload(cut), "{cut}");
        }
    }

    #[test]
    fn the_response_is_named_by_the_events_that_hold_it() {
        let id = |data: &str| response_id_of(&Event::synthetic("x", data));
        let created = r#"{"type":"response.created","response":{"id":"r1","status":"queued"}}"#;
        assert_eq!(id(created).as_deref(), Some("r1"));
        for none in [
            r#"{"type":"x","delta":"y"}"#,
            r#"{"response":{}}"#,
            "[DONE]",
        ] {
            assert_eq!(id(none), None, "{none}");
        }
    }

    #[test]
    fn what_breaks_off_is_told_from_what_is_broken() {
        for cut in ["", "{", "{\"a\":[1", "\"te", "[1,"] {
            assert!(is_cut_payload(cut), "{cut}");
        }
        for other in ["{}", "{]", "{} {", "nul1", "<html>"] {
            assert!(!is_cut_payload(other), "{other}");
        }
    }

    #[test]
    fn a_number_is_read_wherever_it_stands() {
        let number = |data: &str| sequence_of(&Event::synthetic("x", data));
        assert_eq!(
            number(r#"{"type":"keepalive","sequence_number":7}"#),
            Some(7)
        );
        assert_eq!(number(r#"{"type":"x"}"#), None);
        assert_eq!(number("[DONE]"), None);
        assert_eq!(number(r#"{"sequence_number":-1}"#), None);
    }
}
