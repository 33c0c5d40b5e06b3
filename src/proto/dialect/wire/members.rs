//! A JSON object whose members keep their order and their exact text.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The members of an object: name, and value as JSON text.
///
/// Parsing a body into values and writing it again would reorder it, and change
/// numbers that a double does not hold. Prompt caches and signatures of providers
/// look at the text, so what is not to change is not touched.
#[derive(Debug)]
pub(in crate::proto::dialect) struct Members<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> Members<'a> {
    /// The value of a member, as JSON text; the last one of several, as every
    /// common parser has it.
    pub(in crate::proto::dialect) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rfind(|(member, _)| member == name)
            .map(|(_, value)| value.as_ref())
    }

    /// Sets a member in its place, or as the last one.
    pub(in crate::proto::dialect) fn set(&mut self, name: &str, json: impl Into<Cow<'a, str>>) {
        let json = json.into();
        let last = self.0.iter().rposition(|(member, _)| member == name);
        let mut position = 0_usize;
        self.0.retain(|(member, _)| {
            let keep = member != name || Some(position) == last;
            position = position.saturating_add(1);
            keep
        });
        match self.0.iter_mut().find(|(member, _)| member == name) {
            Some((_, value)) => *value = json,
            None => self.0.push((name.to_owned(), json)),
        }
    }

    /// The object as JSON text.
    pub(in crate::proto::dialect) fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (position, (name, value)) in self.0.iter().enumerate() {
            if position > 0 {
                json.push(',');
            }
            json.push_str(&serde_json::Value::from(name.as_str()).to_string());
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        json
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((name, Cow::Borrowed(value.get())));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_keeps_order_and_text() {
        let json = r#"{"z": 1e2,"a":[1, 2],"s":false ,"big":123456789012345678901234567890}"#;
        let mut members: Members<'_> = serde_json::from_str(json).unwrap();
        members.set("s", "true");
        members.set("new", "{}");
        assert_eq!(
            members.to_json(),
            r#"{"z":1e2,"a":[1, 2],"s":true,"big":123456789012345678901234567890,"new":{}}"#
        );
    }

    #[test]
    fn of_several_the_last_counts() {
        let json = r#"{"s":1,"x":0,"s":2}"#;
        let mut members: Members<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(members.get("s"), Some("2"));
        members.set("s", "3");
        assert_eq!(members.to_json(), r#"{"x":0,"s":3}"#);
    }
}
