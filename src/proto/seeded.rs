//! Numbers that look random and are not: equal seeds give equal numbers. Floor 0.

/// SplitMix64 (Steele, Lea and Flood, 2014), which is plenty for spreading
/// callers and nothing for secrets. The seed comes from above the waterline.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// A sequence of its own for each seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in [0, 1), from the upper 53 bits.
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }
}
