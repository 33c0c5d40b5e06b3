//! One text for every way to write a JSON value.

use serde_json::{Map, Number, Value};

/// The canonical form of an object, of those members that `keep` keeps.
///
/// Members are sorted by name, there is no white space, strings are written with
/// the fewest escapes. Numbers go by value, so `1`, `1.0` and `1e0` are one: a
/// client in another language may write any of them for the same request.
pub(super) fn object(object: &Map<String, Value>, keep: impl Fn(&str, &Value) -> bool) -> String {
    let mut text = String::new();
    let kept = object.iter().filter(|(name, value)| keep(name, value));
    members(kept, &mut text);
    text
}

fn members<'a>(object: impl Iterator<Item = (&'a String, &'a Value)>, text: &mut String) {
    // The map sorts only as long as no other crate turns its order off.
    let mut sorted: Vec<_> = object.collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (position, (name, member)) in sorted.into_iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        string(name, text);
        text.push(':');
        value(member, text);
    }
    text.push('}');
}

/// The parser's limit of 128 levels bounds the recursion.
fn value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => text.push_str(&self::number(number)),
        Value::String(content) => string(content, text),
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                self::value(item, text);
            }
            text.push(']');
        }
        Value::Object(object) => members(object.iter(), text),
    }
}

fn string(content: &str, text: &mut String) {
    text.push_str(&Value::from(content).to_string());
}

fn number(number: &Number) -> String {
    // 2^53: up to there every whole double is one whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
            // A negative zero is zero.
            format!("{:.0}", float + 0.0)
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        object(&serde_json::from_str(json).unwrap(), |_, _| true)
    }

    #[test]
    fn one_form_for_every_writing() {
        let forms = [
            r#"{"b":[1,1.5,"\u00e9\n"],"a":{"y":null,"x":true}}"#,
            "{ \"a\" : {\"x\":true, \"y\":null},\n\"b\":[1.0, 15e-1, \"é\\n\"] }",
        ];
        for form in forms {
            assert_eq!(
                canonical(form),
                "{\"a\":{\"x\":true,\"y\":null},\"b\":[1,1.5,\"é\\n\"]}"
            );
        }
    }

    #[test]
    fn numbers_go_by_value() {
        for (written, form) in [
            ("1", "1"),
            ("1e2", "100"),
            ("-0.0", "0"),
            ("0.7", "0.7"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9", "-9"),
        ] {
            assert_eq!(
                canonical(&format!("{{\"n\":{written}}}")),
                format!("{{\"n\":{form}}}")
            );
        }
    }
}
