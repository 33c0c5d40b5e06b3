//! Why a stream cannot be decoded any further.

use crate::error::{Error, ErrorKind, Place};

/// Why decoding stopped.
///
/// There is no malformed event stream: WHATWG gives every sequence of bytes a
/// meaning. What is left is size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// One event, or one comment, is larger than the limit.
    #[error(
        "expected an event of at most {limit} bytes, but found that the event \
         that starts at byte {start} goes on at byte {offset}"
    )]
    EventTooLarge {
        /// Offset in the stream of the event's first byte.
        start: u64,
        /// Offset in the stream of the first byte that no longer fitted. It is
        /// less than `start + limit` only if invalid UTF-8 was replaced, as
        /// each replacement counts with the three bytes it takes.
        offset: u64,
        /// The limit, in bytes.
        limit: u64,
    },
}

impl DecodeError {
    /// Offset in the stream of the byte at which decoding stopped.
    pub const fn offset(&self) -> u64 {
        match self {
            Self::EventTooLarge { offset, .. } => *offset,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let place = Place {
            offset: Some(error.offset()),
            ..Place::default()
        };
        match error {
            DecodeError::EventTooLarge { .. } => {
                Self::new(ErrorKind::EventTooLarge, error.to_string()).at(place)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_error_names_the_limit_and_the_offset() {
        let error = Error::from(DecodeError::EventTooLarge {
            start: 7,
            offset: 17,
            limit: 10,
        });
        assert_eq!(error.kind(), ErrorKind::EventTooLarge);
        assert_eq!(error.place().offset, Some(17));
        assert_eq!(
            error.message(),
            "expected an event of at most 10 bytes, but found that the event \
             that starts at byte 7 goes on at byte 17"
        );
    }
}
