//! The name of an operation and the fingerprint of its request.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An idempotency key: 1 to 255 visible ASCII characters.
///
/// The limit is Stripe's, and visible ASCII is what survives a header field
/// value unchanged (RFC 9110 section 5.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

impl Key {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 255;

    /// Checks and takes a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] when it is empty, too long, or holds
    /// anything but visible ASCII.
    pub fn new(key: impl Into<String>) -> Result<Self, Error> {
        let key = key.into();
        if key.is_empty() || key.len() > Self::MAX_LEN {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                format!(
                    "expected a key of 1 to {} bytes, but found {}",
                    Self::MAX_LEN,
                    key.len()
                ),
            ));
        }
        if let Some(bad) = key.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                format!("expected a key of visible ASCII characters, but found {bad:?} in it"),
            ));
        }
        Ok(Self(key))
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(key: String) -> Result<Self, Error> {
        Self::new(key)
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self, Error> {
        Self::new(key)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 over what makes two requests the same: dialect, URL and the canonical
/// form of the JSON body. A re-serialised body has the same fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// From the digest.
    pub const fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let mut digest = [0_u8; 32];
        let digits = text.as_bytes();
        let valid = digits.len() == 64
            && digits.iter().all(u8::is_ascii_hexdigit)
            && digest
                .iter_mut()
                .zip(digits.chunks_exact(2))
                .all(|(byte, pair)| {
                    std::str::from_utf8(pair)
                        .ok()
                        .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                        .map(|value| *byte = value)
                        .is_some()
                });
        if valid {
            Ok(Self(digest))
        } else {
            Err(serde::de::Error::custom("expected 64 hexadecimal digits"))
        }
    }
}
