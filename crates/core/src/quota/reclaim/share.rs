//! Parts of a whole, compared exactly.

use std::cmp::Ordering;

/// A part of a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    part: i128,
    whole: i128,
}

impl Share {
    /// `part` of `whole`; a negative part is none, and a whole of nothing is taken for the least there is.
    pub(super) fn new(part: i128, whole: i128) -> Self {
        Self { part: part.max(0), whole: whole.max(1) }
    }
}

impl Ord for Share {
    /// By continued fractions: the product of two amounts in nano-units would leave the range.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (*self, *other);
        loop {
            let whole = (one.part / one.whole).cmp(&(two.part / two.whole));
            let (rest, rest_of_other) = (one.part % one.whole, two.part % two.whole);
            if whole != Ordering::Equal || rest == 0 || rest_of_other == 0 {
                return whole.then(rest.min(1).cmp(&rest_of_other.min(1)));
            }
            // What is left is smaller where its reciprocal is greater.
            let next = Self { part: two.whole, whole: rest_of_other };
            two = Self { part: one.whole, whole: rest };
            one = next;
        }
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::Share;

    #[test]
    fn orders() {
        let huge = i128::MAX >> 24;
        for (rule, one, two, expected) in [
            ("equal parts of equal wholes", (1, 4), (1, 4), Ordering::Equal),
            ("equal, written differently", (2, 8), (1, 4), Ordering::Equal),
            ("the greater part", (3, 40), (2, 40), Ordering::Greater),
            ("the smaller whole", (2, 30), (2, 40), Ordering::Greater),
            ("nothing is least", (0, 5), (1, 1_000_000), Ordering::Less),
            ("less than nothing is nothing", (-5, 5), (0, 7), Ordering::Equal),
            ("a whole of nothing", (1, 0), (5, 6), Ordering::Greater),
            ("the range is not left", (huge, huge - 1), (huge - 1, huge), Ordering::Greater),
        ] {
            let (one, two) = (Share::new(one.0, one.1), Share::new(two.0, two.1));
            assert_eq!(one.cmp(&two), expected, "{rule}");
            assert_eq!(two.cmp(&one), expected.reverse(), "{rule}, turned round");
        }
    }

    proptest! {
        #[test]
        fn as_by_multiplication(a in 0_i64.., b in 1_i64.., c in 0_i64.., d in 1_i64..) {
            let [a, b, c, d] = [a, b, c, d].map(i128::from);
            prop_assert_eq!(Share::new(a, b).cmp(&Share::new(c, d)), (a * d).cmp(&(c * b)));
        }
    }
}
