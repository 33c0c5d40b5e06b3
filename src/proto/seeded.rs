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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut seeded = Seeded::new(1_234_567);
        let first: Vec<_> = (0..3).map(|_| seeded.bits()).collect();
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn units_lie_below_one_and_fill_the_range() {
        let mut seeded = Seeded::new(7);
        let units: Vec<_> = (0..10_000).map(|_| seeded.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / 10_000.0;
        assert!((0.49..0.51).contains(&mean), "{mean}");
    }
}
