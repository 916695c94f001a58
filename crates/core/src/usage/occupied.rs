//! Which buckets hold something.

/// The most buckets that there can be.
pub(super) const MOST: usize = 192;

const WORDS: usize = MOST / 64;

/// A set of bucket numbers below [`MOST`]. Weights are stored for its members only, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Occupied {
    words: [u64; WORDS],
}

impl Occupied {
    /// How many members are below `bucket`, and whether it is one itself.
    pub(super) fn rank(&self, bucket: usize) -> (usize, bool) {
        let (whole, bit) = (bucket / 64, 1_u64 << (bucket % 64));
        let mut below = 0;
        for word in self.words.iter().take(whole) {
            below += word.count_ones() as usize;
        }
        let word = self.words.get(whole).copied().unwrap_or(0);
        (below + (word & (bit - 1)).count_ones() as usize, word & bit != 0)
    }

    /// The member with so many members below it.
    pub(super) fn select(&self, mut rank: usize) -> Option<usize> {
        for (at, word) in self.words.iter().enumerate() {
            let members = word.count_ones() as usize;
            if rank < members {
                let rest = (0..rank).fold(*word, |rest, _| rest & (rest - 1));
                return Some(at * 64 + rest.trailing_zeros() as usize);
            }
            rank -= members;
        }
        None
    }

    /// The member with so many members above it.
    pub(super) fn select_from_above(&self, mut rank: usize) -> Option<usize> {
        for (at, word) in self.words.iter().enumerate().rev() {
            let members = word.count_ones() as usize;
            if rank < members {
                let rest = (0..rank).fold(*word, |rest, _| rest & !(1 << rest.ilog2()));
                return Some(at * 64 + rest.ilog2() as usize);
            }
            rank -= members;
        }
        None
    }

    /// Takes a bucket in; one that cannot be is left out.
    pub(super) fn insert(&mut self, bucket: usize) {
        if let Some(word) = self.words.get_mut(bucket / 64) {
            *word |= 1 << (bucket % 64);
        }
    }

    /// The members of either set.
    pub(super) fn union(mut self, other: Self) -> Self {
        for (mine, theirs) in self.words.iter_mut().zip(other.words) {
            *mine |= theirs;
        }
        self
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
            for (rank, number) in numbers.iter().enumerate() {
                prop_assert_eq!(set.select(rank), Some(*number));
                prop_assert_eq!(set.select_from_above(numbers.len() - 1 - rank), Some(*number));
            }
            prop_assert_eq!(set.select(numbers.len()), None);
            prop_assert_eq!(set.select_from_above(numbers.len()), None);
            for bucket in 0..MOST {
                prop_assert_eq!(set.rank(bucket), (numbers.range(..bucket).count(), numbers.contains(&bucket)));
            }
            prop_assert_eq!(set.union(of(&others)), of(&numbers.union(&others).copied().collect()));
        }
    }
}
