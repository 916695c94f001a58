//! Which buckets hold something.

/// The most buckets that there can be.
pub(super) const MOST: usize = 192;

const WORDS: usize = MOST / 64;

/// A set of bucket numbers below [`MOST`]. Weights are stored for its members only, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Occupied {
    words: [u64; WORDS],
    /// How many members are in the words before each: counting bits is the longest part of finding a weight.
    before: [u8; WORDS],
}

impl Occupied {
    /// How many members are below `bucket`, and whether it is one itself.
    pub(super) fn rank(&self, bucket: usize) -> (usize, bool) {
        // Beyond the last word there is no bucket; asked nevertheless, the answer is about the last one's.
        let (at, bit) = ((bucket / 64).min(WORDS - 1), 1_u64 << (bucket % 64));
        let (word, before) = match self.words.get(at).zip(self.before.get(at)) {
            Some((word, before)) => (*word, usize::from(*before)),
            None => (0, 0),
        };
        (before + (word & (bit - 1)).count_ones() as usize, word & bit != 0)
    }

    /// Takes a bucket in; one that cannot be is left out.
    pub(super) fn insert(&mut self, bucket: usize) {
        if let Some(word) = self.words.get_mut(bucket / 64) {
            *word |= 1 << (bucket % 64);
            self.count();
        }
    }

    /// The members of either set.
    pub(super) fn union(mut self, other: Self) -> Self {
        for (mine, theirs) in self.words.iter_mut().zip(other.words) {
            *mine |= theirs;
        }
        self.count();
        self
    }

    fn count(&mut self) {
        let mut below = 0;
        for (before, word) in self.before.iter_mut().zip(self.words) {
            *before = below;
            // At most 64, and 192 in all.
            below += u8::try_from(word.count_ones()).unwrap_or(0);
        }
    }

    /// All members, falling.
    pub(super) fn falling(&self) -> impl Iterator<Item = usize> + use<> {
        self.words.into_iter().enumerate().rev().flat_map(|(at, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.checked_ilog2()?;
                rest ^= 1 << bit;
                Some(at * 64 + bit as usize)
            })
        })
    }

    /// All members, rising.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.words.into_iter().enumerate().flat_map(|(at, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(numbers in prop::collection::btree_set(0..MOST, 0..MOST), others in prop::collection::btree_set(0..MOST, 0..9)) {
            let of = |numbers: &BTreeSet<usize>| {
                let mut set = Occupied::default();
                for number in numbers {
                    set.insert(*number);
                }
                set
            };
            let set = of(&numbers);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.falling().collect::<Vec<_>>(), numbers.iter().rev().copied().collect::<Vec<_>>());
            for bucket in 0..MOST {
                prop_assert_eq!(set.rank(bucket), (numbers.range(..bucket).count(), numbers.contains(&bucket)));
            }
            prop_assert_eq!(set.union(of(&others)), of(&numbers.union(&others).copied().collect()));
        }
    }
}
