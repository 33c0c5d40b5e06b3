//! The name of what the shared guards guard.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// One upstream as the guards see it: an opaque name, made by whoever sends.
///
/// It should tell apart what fails apart: base URL, model, and an id of the
/// credential (never the credential itself: the name appears in metrics).
/// Providers limit rates per model and organisation, so a name that is coarser
/// lets one model's limit slow down the others.
///
/// A name may be hostile (a gateway's caller chooses the model), so one that is
/// longer than [`MAX_LEN`](Self::MAX_LEN) bytes is cut and ends in a digest of
/// the whole: it stays unique, and it stays small. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(Arc<str>);

impl EndpointId {
    /// The longest name that is kept as it is, in bytes.
    pub const MAX_LEN: usize = 255;

    /// Takes any name.
    pub fn new(name: &str) -> Self {
        if name.len() <= Self::MAX_LEN {
            return Self(name.into());
        }
        let digest = Sha256::digest(name.as_bytes());
        let mut kept: String = name
            .char_indices()
            .take_while(|(at, char)| at + char.len_utf8() <= Self::MAX_LEN - 33)
            .map(|(_, char)| char)
            .collect();
        kept.push('#');
        for byte in digest.iter().take(16) {
            let _ = write!(kept, "{byte:02x}");
        }
        Self(kept.into())
    }

    /// From its parts. They are told apart by a character that no part keeps, so
    /// no choice of parts can pass for another.
    pub fn of(base_url: &str, model: &str, credential_id: &str) -> Self {
        let clean = |part: &str| part.replace('|', "%7C");
        Self::new(&format!(
            "{}|{}|{}",
            clean(base_url),
            clean(model),
            clean(credential_id)
        ))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for EndpointId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointId({:?})", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let long = "m".repeat(1000);
        let (one, other) = (EndpointId::new(&long), EndpointId::new(&format!("{long}n")));
        assert!(one.as_str().len() <= EndpointId::MAX_LEN, "{one}");
        assert_ne!(one, other);
        assert_eq!(one, EndpointId::new(&long));
        let wide = "é".repeat(300);
        assert!(EndpointId::new(&wide).as_str().len() <= EndpointId::MAX_LEN);
    }

    #[test]
    fn no_part_can_pass_for_two() {
        assert_ne!(
            EndpointId::of("a|b", "c", ""),
            EndpointId::of("a", "b|c", "")
        );
        assert_ne!(EndpointId::of("a", "b", ""), EndpointId::of("a", "", "b"));
    }
}
