//! Text that shares the buffer it arrived in.

use bytes::Bytes;
use bytestring::ByteString;
use std::fmt;
use std::ops::Deref;

/// UTF-8 text over a reference-counted buffer: cloning and slicing copy nothing.
///
/// A slice keeps the whole buffer alive. Before storing a small text for long,
/// call [`Text::detached`].
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(ByteString);

impl Text {
    /// Text with the program's lifetime.
    pub const fn from_static(text: &'static str) -> Self {
        Self(ByteString::from_static(text))
    }

    /// The bytes as text, or `None` if they are not UTF-8. Copies nothing.
    #[inline]
    pub fn from_utf8(bytes: Bytes) -> Option<Self> {
        ByteString::try_from(bytes).ok().map(Self)
    }

    /// The bytes as text, with every invalid sequence replaced by U+FFFD
    /// (WHATWG "UTF-8 decode"). Copies only if something had to be replaced.
    pub fn from_utf8_lossy(bytes: &Bytes) -> Self {
        Self::from_utf8(bytes.clone())
            .unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned().into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes, shared.
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// A copy in a buffer of its own, so that the shared one can be freed.
    pub fn detached(&self) -> Self {
        Self(ByteString::from(self.as_str()))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
