//! Sets of rules, as bit sets of their positions.

/// A sparse set of rules: the words of a bit set that are not 0, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet(Vec<(u32, u64)>);

impl RuleSet {
    /// Adds a rule. Rules must be added in their order; one may be added several times.
    pub(crate) fn insert(&mut self, rule: u32) {
        let (word, bit) = (rule / 64, 1 << (rule % 64));
        match self.0.last_mut() {
            Some((last, bits)) if *last == word => *bits |= bit,
            _ => self.0.push((word, bit)),
        }
    }

    /// Returns the bits of a word.
    pub(crate) fn word(&self, word: u32) -> u64 {
        // If all words are present, or only one, no search is needed.
        match self.0.get(word as usize).or(self.0.first()) {
            Some((known, bits)) if *known == word => *bits,
            _ => self.0.binary_search_by_key(&word, |(known, _)| *known).map_or(0, |index| self.0[index].1),
        }
    }

    pub(crate) fn contains(&self, rule: u32) -> bool {
        self.word(rule / 64) >> (rule % 64) & 1 == 1
    }

    pub(crate) fn words(&self) -> impl ExactSizeIterator<Item = u32> {
        self.0.iter().map(|(word, _)| *word)
    }
}

/// A dense set of rules.
#[derive(Clone, Debug)]
pub(crate) struct DenseSet {
    bits: Vec<u64>,
    /// The words that are not 0.
    words: Vec<u32>,
    is_all: bool,
}

impl DenseSet {
    /// Returns the set of the rules, of this number, for which `is_member` returns true.
    pub(crate) fn from_fn(rules: usize, is_member: impl Fn(usize) -> bool) -> DenseSet {
        let mut bits = vec![0; rules.div_ceil(64)];
        let mut is_all = true;
        for rule in 0..rules {
            let is_member = is_member(rule);
            bits[rule / 64] |= u64::from(is_member) << (rule % 64);
            is_all &= is_member;
        }
        let words = (0..).zip(&bits).filter(|(_, bits)| **bits != 0).map(|(word, _)| word).collect();
        DenseSet { bits, words, is_all }
    }

    /// Whether the set contains all rules.
    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    pub(crate) fn word(&self, word: u32) -> u64 {
        self.bits[word as usize]
    }

    pub(crate) fn contains(&self, rule: u32) -> bool {
        self.word(rule / 64) >> (rule % 64) & 1 == 1
    }

    /// Returns the words that are not 0.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    pub(crate) fn word_count(&self) -> u32 {
        u32::try_from(self.bits.len()).unwrap_or(u32::MAX)
    }
}

/// Returns the positions of the rules whose bits are set in a word.
pub(crate) fn rules_in(word: u32, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(word * 64 + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_set_contains_exactly_the_inserted_rules() {
        for rules in [&[][..], &[0], &[63, 64], &[200], &[1, 2, 700, 701], &[0, 64, 128, 192]] {
            let mut set = RuleSet::default();
            rules.iter().for_each(|rule| set.insert(*rule));
            let found: Vec<u32> = set.words().flat_map(|word| rules_in(word, set.word(word))).collect();
            assert_eq!(found, rules);
            for rule in 0..800 {
                assert_eq!(set.contains(rule), rules.contains(&rule), "{rule} in {rules:?}");
            }
        }
    }

    #[test]
    fn dense_set_of_all_rules_lists_every_position() {
        for count in [0, 1, 63, 64, 65, 128] {
            let set = DenseSet::from_fn(count, |_| true);
            let found: Vec<u32> = set.words().iter().flat_map(|&word| rules_in(word, set.word(word))).collect();
            assert_eq!(found, (0..u32::try_from(count).unwrap()).collect::<Vec<_>>());
        }
    }
}
