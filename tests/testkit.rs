//! The test kit, seen from outside: bytes on the wire, gates, recording.
#![cfg(feature = "testkit")]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

#[path = "testkit/background.rs"]
mod background;
#[path = "support/cases.rs"]
#[expect(dead_code, reason = "the test that plays the cases uses the rest")]
mod cases;
#[path = "testkit/faults.rs"]
mod faults;
#[path = "testkit/proxy.rs"]
mod proxy;
#[path = "testkit/raw.rs"]
mod raw;
#[path = "testkit/recording.rs"]
mod recording;
#[path = "testkit/shapes.rs"]
mod shapes;
#[path = "support/wire.rs"]
mod wire;

/// A sequence of numbers that looks random and is the same each run (SplitMix64,
/// Steele, Lea and Flood, 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(limit).unwrap()).unwrap()
    }
}
