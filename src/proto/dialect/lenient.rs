//! Field types that never fail on a shape.
//!
//! Compatible servers put numbers where strings are documented, objects where
//! numbers are, and `null` anywhere. A typed struct made of these fields parses
//! every JSON object; a field of another shape reads as absent. Text is borrowed
//! from the payload unless it holds an escape, so the hot path copies once.

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A string; anything else reads as absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Str<'a>(Option<Cow<'a, str>>);

impl Str<'_> {
    /// The string, unless it is absent or empty: servers send `""` where others
    /// send `null`, and neither says anything.
    pub(super) fn said(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// As [`Str::said`], owned.
    pub(super) fn take(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty()).map(Cow::into_owned)
    }

    /// The string, empty when it is absent.
    pub(super) fn or_empty(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// A whole number that is not negative; anything else reads as absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Num(pub(super) Option<u64>);

impl Num {
    /// The number as an index. One beyond `u32::MAX` reads as absent: no answer
    /// has that many of anything.
    pub(super) fn index(self) -> Option<u32> {
        self.0.and_then(|number| u32::try_from(number).ok())
    }
}

/// An object of a known shape; anything else reads as absent.
#[derive(Clone, Debug)]
pub(super) struct Obj<T>(pub(super) Option<T>);

impl<T> Default for Obj<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A list of objects of a known shape; members of another shape are left out.
#[derive(Clone, Debug, Default)]
pub(super) enum List<T> {
    /// There is no such field.
    #[default]
    Missing,
    /// The field is `null`.
    Null,
    /// The members.
    Items(Vec<T>),
    /// The field is neither a list nor `null`.
    Other,
}

impl<T> List<T> {
    /// The members; none unless it is a list.
    pub(super) fn items(self) -> Vec<T> {
        match self {
            Self::Items(items) => items,
            Self::Missing | Self::Null | Self::Other => Vec::new(),
        }
    }

    /// The members; none unless it is a list.
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::Items(items) => items,
            Self::Missing | Self::Null | Self::Other => &[],
        }
    }
}

/// Whether a field says anything: not absent, `null`, `false`, zero or empty.
/// The official SDKs raise on an `error` field by this rule
/// (docs/providers.md#openai-chat/in-band-errors).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Truthy(pub(super) bool);

/// Text, or a structure where text is documented.
#[derive(Clone, Debug, Default)]
pub(super) enum TextOr<'a> {
    /// Absent, `null`, or a number or truth value.
    #[default]
    Nothing,
    /// Text.
    Text(Cow<'a, str>),
    /// An object or a list.
    Json(Value),
}

/// The visitor methods for every shape that reads as `$absent`.
macro_rules! absent {
    ($absent:expr; $($shape:ident)*) => { $(absent!(@$shape $absent);)* };
    (@unit $absent:expr) => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> { Ok($absent) }
        fn visit_none<E: Error>(self) -> Result<Self::Value, E> { Ok($absent) }
    };
    (@bool $absent:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok($absent) }
    };
    (@number $absent:expr) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok($absent) }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok($absent) }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok($absent) }
    };
    (@str $absent:expr) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok($absent) }
    };
    (@seq $absent:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($absent)
        }
    };
    (@map $absent:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($absent)
        }
    };
}

fn expecting(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("any JSON value")
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<'a>(PhantomData<Str<'a>>);
        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Str<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Str<'a>, E> {
                Ok(Str(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Str<'a>, E> {
                Ok(Str(Some(Cow::Owned(text.to_owned()))))
            }
            absent!(Str(None); unit bool number seq map);
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<'a>(PhantomData<TextOr<'a>>);
        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = TextOr<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<TextOr<'a>, E> {
                Ok(TextOr::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<'a>, E> {
                Ok(TextOr::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<TextOr<'a>, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(seq)).map(TextOr::Json)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<'a>, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Json)
            }
            absent!(TextOr::Nothing; unit bool number);
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Num;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Num, E> {
                Ok(Num(Some(number)))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Num, E> {
                Ok(Num(u64::try_from(number).ok()))
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is checked, and 2^53 is the last whole number a double holds exactly"
            )]
            fn visit_f64<E: Error>(self, number: f64) -> Result<Num, E> {
                let whole =
                    (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
                Ok(Num(whole.then_some(number as u64)))
            }
            absent!(Num(None); unit bool str seq map);
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de> Deserialize<'de> for Truthy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Truthy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Truthy, E> {
                Ok(Truthy(value))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Truthy, E> {
                Ok(Truthy(number != 0))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Truthy, E> {
                Ok(Truthy(number != 0))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Truthy, E> {
                Ok(Truthy(number != 0.0))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Truthy, E> {
                Ok(Truthy(!text.is_empty()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Truthy, A::Error> {
                let mut any = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Truthy(any))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Truthy, A::Error> {
                let mut any = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Truthy(any))
            }
            absent!(Truthy(false); unit);
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Obj<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Obj<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Obj<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|object| Obj(Some(object)))
            }
            absent!(Obj(None); unit bool number str seq);
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                // One member is what nearly every list has: one candidate, one call.
                let mut items = Vec::with_capacity(1);
                while let Some(Obj(item)) = seq.next_element()? {
                    items.extend(item);
                }
                Ok(List::Items(items))
            }
            absent!(List::Null; unit);
            absent!(List::Other; bool number str map);
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Probe<'a> {
        #[serde(borrow)]
        text: Str<'a>,
        number: Num,
        object: Obj<Inner>,
        list: List<Inner>,
        flag: Truthy,
        #[serde(borrow)]
        either: TextOr<'a>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner {
        n: Num,
    }

    #[test]
    fn every_shape_in_every_field_parses() {
        let shapes = [
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e300",
            "\"\"",
            "\"a\\nb\"",
            "[]",
            "[1,{\"n\":2}]",
            "{}",
            "{\"n\":3,\"x\":[{}]}",
        ];
        for field in ["text", "number", "object", "list", "flag", "either"] {
            for shape in shapes {
                let json = format!("{{\"{field}\":{shape}}}");
                serde_json::from_str::<Probe<'_>>(&json)
                    .unwrap_or_else(|error| panic!("{json}: {error}"));
                let value: Value = serde_json::from_str(&json).unwrap();
                Probe::deserialize(&value).unwrap_or_else(|error| panic!("{json}: {error}"));
            }
        }
    }

    #[test]
    fn what_fits_is_read_and_text_without_escapes_is_borrowed() {
        let json = r#"{"text":"plain","number":7.0,"object":{"n":3},"list":[1,{"n":2}],
            "flag":{"a":1},"either":["x"]}"#;
        let probe: Probe<'_> = serde_json::from_str(json).unwrap();
        assert!(matches!(probe.text.0, Some(Cow::Borrowed("plain"))));
        assert_eq!(probe.number.0, Some(7));
        assert_eq!(probe.object.0.unwrap().n.0, Some(3));
        assert_eq!(probe.list.items().first().unwrap().n.0, Some(2));
        assert!(probe.flag.0);
        assert!(matches!(probe.either, TextOr::Json(_)));
    }
}
