//! Random numbers and texts: the generators behind a workload's arguments and a table's rows.
//!
//! Row content must stay the same from version to version, so that data prepared once can be verified later. That is
//! why the generator is written out here: SplitMix64 (Steele, Lea, Flood 2014), one multiplication a draw and good
//! enough for ids. The distributions are those of sysbench 1.0 over 64-bit ranges, and Zipf's.
//!
//! Must not import: anything but the rest of `workload`.

use std::convert::Infallible;

use rand::TryRng;
use rand_distr::{Distribution as _, Zipf};

/// The odd constant of SplitMix64, 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word so that neighbouring inputs have unrelated outputs; a bijection.
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A stream of random numbers that is a function of its seed.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of one operation or row: a function of all words.
    pub fn of(words: &[u64]) -> Random {
        let state = words.iter().fold(GOLDEN, |state, &word| mix(state ^ mix(word.wrapping_add(GOLDEN))));
        Random { state }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1), of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..`count`: the high word of a product, drawn again where that would favour some values (Lemire 2019).
    fn below(&mut self, count: u64) -> u64 {
        loop {
            let product = u128::from(self.next()) * u128::from(count);
            let low = product as u64;
            // The exact bound costs a division, and `low` is almost always above `count`, which is above the bound.
            if low >= count || low >= count.wrapping_neg() % count {
                return (product >> 64) as u64;
            }
        }
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// Which distribution `random(a, b)` follows; sysbench's --rand-type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RandomKind {
    #[default]
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

/// The distributions' parameters; the defaults are sysbench's.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomSettings {
    pub kind: RandomKind,
    /// gaussian and special: number of uniform draws that are averaged.
    pub spec_iter: u32,
    /// special: size of the hot window in percent of the range.
    pub spec_pct: u32,
    /// special: percentage of draws that fall into the hot window.
    pub spec_res: u32,
    pub pareto_h: f64,
    pub zipfian_exp: f64,
    /// Spreads the hottest ids over the range instead of keeping them at its start.
    pub zipfian_scramble: bool,
}

impl Default for RandomSettings {
    fn default() -> RandomSettings {
        RandomSettings {
            kind: RandomKind::Uniform,
            spec_iter: 12,
            spec_pct: 1,
            spec_res: 75,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
            zipfian_scramble: true,
        }
    }
}

impl RandomSettings {
    /// Says which option is impossible, if one is.
    pub fn check(&self) -> Result<(), String> {
        if self.spec_iter == 0 {
            return Err("--rand-spec-iter must be at least 1".into());
        }
        if self.spec_pct > 100 || self.spec_res >= 100 {
            return Err("--rand-spec-pct must be at most 100 and --rand-spec-res at most 99".into());
        }
        if !(self.pareto_h > 0.0 && self.pareto_h < 1.0) {
            return Err("--rand-pareto-h must be between 0 and 1, as the pareto distribution needs it".into());
        }
        if !(self.zipfian_exp >= 0.0 && self.zipfian_exp.is_finite()) {
            return Err("--rand-zipfian-exp must be a number of at least 0".into());
        }
        Ok(())
    }

    pub fn distribution(&self, kind: RandomKind) -> Distribution {
        match kind {
            RandomKind::Uniform => Distribution::Uniform,
            RandomKind::Gaussian => Distribution::Gaussian { draws: self.spec_iter },
            RandomKind::Special => Distribution::Special {
                draws: self.spec_iter,
                window: f64::from(self.spec_pct) / 100.0,
                stretch: 100.0 / (100.0 - f64::from(self.spec_res)),
            },
            RandomKind::Pareto => Distribution::Pareto { power: self.pareto_h.ln() / (1.0 - self.pareto_h).ln() },
            RandomKind::Zipfian => {
                Distribution::Zipfian { exponent: self.zipfian_exp, scramble: self.zipfian_scramble, known: None }
            }
        }
    }
}

/// A distribution over an inclusive range of integers that each draw is given.
#[derive(Clone, Debug)]
pub enum Distribution {
    Uniform,
    /// The mean of uniform draws: a bell over the whole range.
    Gaussian {
        draws: u32,
    },
    /// sysbench 1.0's default: most draws fall into a window at the centre, the rest is a bell. One draw decides both
    /// the branch and the place in the window, so the window's first quarter (for 75 %) is never hit.
    Special {
        draws: u32,
        window: f64,
        stretch: f64,
    },
    /// u^(ln h / ln(1 - h)): the lowest ids are hottest.
    Pareto {
        power: f64,
    },
    /// Rank r with probability proportional to r^-exponent. `known` is the sampler of a range known in advance.
    Zipfian {
        exponent: f64,
        scramble: bool,
        known: Option<(u64, Zipf<f64>)>,
    },
}

impl Distribution {
    /// Prepares for a range of `count` values, if all draws will be from one of that size.
    pub fn for_range(mut self, count: u64) -> Distribution {
        if let Distribution::Zipfian { exponent, known, .. } = &mut self {
            *known = Zipf::new(count as f64, *exponent).ok().map(|zipf| (count, zipf));
        }
        self
    }

    /// Draws from `low..=high`. An empty range gives `low`.
    pub fn draw(&self, low: i64, high: i64, random: &mut Random) -> i64 {
        if high <= low {
            return low;
        }
        let last = high.wrapping_sub(low) as u64;
        let Some(count) = last.checked_add(1) else { return random.next() as i64 };
        let offset = match self {
            Distribution::Uniform => random.below(count),
            Distribution::Gaussian { draws } => (mean(random, *draws) * count as f64) as u64,
            Distribution::Special { draws, window, stretch } => special(random, last, *draws, *window, *stretch),
            Distribution::Pareto { power } => (random.unit().powf(*power) * count as f64) as u64,
            Distribution::Zipfian { exponent, scramble, known } => {
                let rank = zipf_rank(random, count, *exponent, known);
                if *scramble { scrambled(rank, count) } else { rank }
            }
        };
        // Rounding may reach the value after the last one.
        low.wrapping_add(offset.min(last) as i64)
    }
}

fn mean(random: &mut Random, draws: u32) -> f64 {
    (0..draws).map(|_| random.unit()).sum::<f64>() / f64::from(draws)
}

/// sysbench 1.0's formula, with `last` = b - a.
fn special(random: &mut Random, last: u64, draws: u32, window: f64, stretch: f64) -> u64 {
    let last = last as f64;
    let unit = random.unit();
    if unit * last * stretch < last {
        return (mean(random, draws) * last) as u64;
    }
    (unit * (last * window + 1.0) + last / 2.0 - last * window / 2.0) as u64
}

/// A rank from 0; the lowest is the most frequent.
fn zipf_rank(random: &mut Random, count: u64, exponent: f64, known: &Option<(u64, Zipf<f64>)>) -> u64 {
    let rank = match known {
        Some((known, zipf)) if *known == count => zipf.sample(random),
        _ => match Zipf::new(count as f64, exponent) {
            Ok(zipf) => zipf.sample(random),
            Err(_) => return random.below(count),
        },
    };
    (rank as u64).saturating_sub(1)
}

/// A bijection of 0..`count`, always the same one: mixes within the next power of two and walks on until the result
/// lies inside.
pub fn scrambled(value: u64, count: u64) -> u64 {
    let bits = (64 - (count - 1).leading_zeros()).max(2);
    let mut value = value;
    loop {
        value = permuted(value, bits, 0);
        if value < count {
            return value;
        }
    }
}

/// A bijection of the numbers of `bits` bits, chosen by `key`. Each step can be undone: adding, multiplying by an odd
/// number, and a shifted exclusive or.
pub fn permuted(value: u64, bits: u32, key: u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let half = bits.div_ceil(2);
    let mut value = value & mask;
    for round in 0..3 {
        value = value.wrapping_add(mix(key.wrapping_add(round))) & mask;
        value = value.wrapping_mul(0xd134_2543_de82_ef95) & mask;
        value ^= value >> half;
    }
    value
}

/// A text template: each `#` becomes a digit, each `@` a lower-case letter, the rest stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Digits(usize),
    Letters(usize),
    /// Whole characters, in the first `length` bytes.
    Literal {
        bytes: [u8; LONGEST_PART],
        length: usize,
    },
}

/// Digits and letters taken from one 64-bit draw; what is left of it then still has 24 and 26 bits.
const DIGITS_A_DRAW: usize = 12;
const LETTERS_A_DRAW: usize = 8;
const LONGEST_PART: usize = 16;

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

impl Template {
    pub fn new(text: &str) -> Template {
        let mut parts = Vec::new();
        for character in text.chars() {
            match (character, parts.last_mut()) {
                ('#', Some(Part::Digits(count))) if *count < DIGITS_A_DRAW => *count += 1,
                ('@', Some(Part::Letters(count))) if *count < LETTERS_A_DRAW => *count += 1,
                ('#', _) => parts.push(Part::Digits(1)),
                ('@', _) => parts.push(Part::Letters(1)),
                (_, Some(Part::Literal { bytes, length })) if *length + character.len_utf8() <= LONGEST_PART => {
                    *length += character.encode_utf8(&mut bytes[*length..]).len();
                }
                _ => {
                    let mut bytes = [0; LONGEST_PART];
                    let length = character.encode_utf8(&mut bytes).len();
                    parts.push(Part::Literal { bytes, length });
                }
            }
        }
        Template { parts }
    }

    /// Appends the text. It is put together as bytes, since a `String` checks each append.
    pub fn render(&self, random: &mut Random, text: &mut String) {
        let mut bytes = [0; 256];
        let mut used = 0;
        for part in &self.parts {
            let room = match bytes[used..].first_chunk_mut() {
                Some(room) => room,
                None => {
                    append(&bytes[..used], text);
                    used = 0;
                    bytes.first_chunk_mut().expect("a part is shorter than the buffer")
                }
            };
            used += part.write(random, room);
        }
        append(&bytes[..used], text);
    }
}

fn append(bytes: &[u8], text: &mut String) {
    text.push_str(std::str::from_utf8(bytes).expect("parts are whole characters"));
}

impl Part {
    /// Writes the part to the start of `bytes` and gives its length; what is behind it may be overwritten too.
    fn write(&self, random: &mut Random, bytes: &mut [u8; LONGEST_PART]) -> usize {
        match self {
            Part::Literal { bytes: literal, length } => {
                *bytes = *literal;
                *length
            }
            Part::Digits(count) => {
                // The high word of a product by 100 is two digits; the low word is the fraction to go on with.
                let mut fraction = random.next();
                for place in bytes[..DIGITS_A_DRAW].as_chunks_mut::<2>().0 {
                    let product = u128::from(fraction) * 100;
                    *place = PAIRS[(product >> 64) as usize];
                    fraction = product as u64;
                }
                // Of the last pair only the second digit is taken if the number of digits is odd.
                if count % 2 == 1 {
                    bytes[count - 1] = bytes[*count];
                }
                *count
            }
            Part::Letters(count) => {
                let mut fraction = random.next();
                for place in &mut bytes[..LETTERS_A_DRAW] {
                    let product = u128::from(fraction) * 26;
                    *place = b'a' + (product >> 64) as u8;
                    fraction = product as u64;
                }
                *count
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: u32 = 200_000;

    fn share(distribution: &Distribution, high: i64, wanted: impl Fn(i64) -> bool) -> f64 {
        let mut random = Random::of(&[7]);
        let hits = (0..DRAWS).filter(|_| wanted(distribution.draw(1, high, &mut random))).count();
        hits as f64 / f64::from(DRAWS)
    }

    fn of(kind: RandomKind) -> Distribution {
        RandomSettings::default().distribution(kind)
    }

    #[test]
    fn uniform_gives_each_tenth_a_tenth() {
        for tenth in 0..10 {
            let found = share(&of(RandomKind::Uniform), 1000, |id| (id - 1) / 100 == tenth);
            assert!((found - 0.1).abs() < 0.004, "{tenth}: {found}");
        }
    }

    #[test]
    fn special_is_sysbench_1_0_with_its_off_centre_window() {
        let special = of(RandomKind::Special);
        let window = share(&special, 10_000, |id| (4975..=5051).contains(&id));
        // The bell's own share of the window, 76 of 10,000 near its top, adds about 0.007 to three quarters.
        assert!((window - 0.757).abs() < 0.006, "{window}");
        let first_quarter = share(&special, 10_000, |id| (4950..4975).contains(&id));
        assert!(first_quarter < 0.01, "the window's start is hit by the bell only: {first_quarter}");
    }

    #[test]
    fn gaussian_is_a_bell_over_the_range() {
        // The mean of 12 uniform draws has a standard deviation of 1/12.
        let within = share(&of(RandomKind::Gaussian), 1200, |id| (id - 600).abs() <= 100);
        assert!((within - 0.683).abs() < 0.006, "{within}");
    }

    #[test]
    fn pareto_gives_a_fifth_of_the_ids_four_fifths_of_the_draws() {
        let found = share(&of(RandomKind::Pareto), 10_000, |id| id <= 2000);
        assert!((found - 0.8).abs() < 0.005, "{found}");
    }

    #[test]
    fn zipfian_ranks_fall_off_by_the_exponent() {
        let settings = RandomSettings { zipfian_exp: 1.0, zipfian_scramble: false, ..RandomSettings::default() };
        let zipfian = settings.distribution(RandomKind::Zipfian).for_range(1000);
        let first = share(&zipfian, 1000, |id| id == 1);
        let tenth = share(&zipfian, 1000, |id| id == 10);
        assert!((first / tenth - 10.0).abs() < 1.0, "{first} {tenth}");
        // The harmonic number of 1000 is 7.485.
        assert!((first - 1.0 / 7.485).abs() < 0.004, "{first}");
    }

    #[test]
    fn scrambling_moves_the_hottest_id_and_keeps_its_share() {
        let settings = RandomSettings { zipfian_exp: 1.0, ..RandomSettings::default() };
        let zipfian = settings.distribution(RandomKind::Zipfian).for_range(1000);
        let hottest = 1 + scrambled(0, 1000) as i64;
        assert_ne!(hottest, 1);
        let found = share(&zipfian, 1000, |id| id == hottest);
        assert!((found - 1.0 / 7.485).abs() < 0.004, "{found}");
    }

    #[test]
    fn digits_of_a_template_are_uniform() {
        let template = Template::new("####-@@");
        let mut random = Random::of(&[1]);
        let mut counts = [[0u32; 10]; 4];
        for _ in 0..20_000 {
            let mut text = String::new();
            template.render(&mut random, &mut text);
            assert_eq!(text.len(), 7);
            assert_eq!(text.as_bytes()[4], b'-');
            assert!(text[5..].bytes().all(|letter| letter.is_ascii_lowercase()));
            for (place, digit) in text[..4].bytes().enumerate() {
                counts[place][usize::from(digit - b'0')] += 1;
            }
        }
        assert!(counts.iter().flatten().all(|&count| (1800..2200).contains(&count)), "{counts:?}");
    }

    #[test]
    fn what_rows_are_made_of_never_changes() {
        // Data prepared by one version is verified by another.
        let mut random = Random::of(&[0, 1, 1]);
        let mut text = String::new();
        Template::new("###########-###########").render(&mut random, &mut text);
        assert_eq!(text, "96693844064-14613773878");
        assert_eq!(of(RandomKind::Uniform).draw(1, 25_000, &mut random), 11_808);
    }

    #[test]
    fn impossible_parameters_name_their_option() {
        let check = |change: fn(&mut RandomSettings)| {
            let mut settings = RandomSettings::default();
            change(&mut settings);
            settings.check().unwrap_err()
        };
        assert!(check(|settings| settings.spec_iter = 0).contains("--rand-spec-iter"));
        assert!(check(|settings| settings.spec_res = 100).contains("--rand-spec-res"));
        assert!(check(|settings| settings.pareto_h = 1.0).contains("--rand-pareto-h"));
        assert!(check(|settings| settings.zipfian_exp = f64::NAN).contains("--rand-zipfian-exp"));
    }

    fn kinds() -> impl Strategy<Value = RandomKind> {
        use RandomKind::*;
        prop_oneof![Just(Uniform), Just(Gaussian), Just(Special), Just(Pareto), Just(Zipfian)]
    }

    proptest! {
        #[test]
        fn every_draw_lies_in_its_range(kind in kinds(), low: i64, span in 0i64..1_000_000, seed: u64) {
            let high = low.saturating_add(span);
            let mut random = Random::of(&[seed]);
            let id = of(kind).draw(low, high, &mut random);
            prop_assert!((low..=high).contains(&id));
        }

        #[test]
        fn no_range_makes_a_draw_panic(kind in kinds(), low: i64, high: i64, seed: u64) {
            let mut random = Random::of(&[seed]);
            of(kind).draw(low, high, &mut random);
        }

        #[test]
        fn scrambling_is_a_bijection(count in 1u64..3000) {
            let mut seen: Vec<u64> = (0..count).map(|value| scrambled(value, count)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn permuting_is_a_bijection(bits in 2u32..12, key: u64) {
            let mut seen: Vec<u64> = (0..1 << bits).map(|value| permuted(value, bits, key)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..1 << bits).collect::<Vec<_>>());
        }

        #[test]
        fn a_template_fills_its_places_and_keeps_the_rest(text in "[-#@#@a-zé☃ ]{0,600}", seed: u64) {
            let template = Template::new(&text);
            let mut rendered = String::new();
            template.render(&mut Random::of(&[seed]), &mut rendered);
            prop_assert_eq!(rendered.chars().count(), text.chars().count());
            for (made, wanted) in rendered.chars().zip(text.chars()) {
                let fits = match wanted {
                    '#' => made.is_ascii_digit(),
                    '@' => made.is_ascii_lowercase(),
                    other => made == other,
                };
                prop_assert!(fits, "{wanted} became {made}");
            }
        }
    }
}
