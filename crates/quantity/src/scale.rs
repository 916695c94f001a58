use crate::{Ratio, wide};

/// What happens to a value between two multiples of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Away from zero: up for positive values, down for negative ones, as Kubernetes rounds.
    Up,
    /// Toward zero: down for positive values, up for negative ones.
    Down,
}

/// `nanos * ratio`, rounded to a multiple of `unit_nanos`.
///
/// The product is held in 256 bits, so the result is exact before the one rounding. `None` if the result does
/// not fit in an `i128`, or if `unit_nanos` is not positive.
///
/// ```
/// use plimsoll_quantity::{Quantity, Ratio, Rounding, scale};
///
/// let request = Quantity::parse("100Gi")?;
/// let factor = Ratio::parse_decimal("0.29")?;
/// let lowered = scale(request.nanos(), &factor, 1_000_000_000, Rounding::Up);
/// assert_eq!(lowered, Some(Quantity::parse("29Gi")?.nanos()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn scale(nanos: i128, ratio: &Ratio, unit_nanos: i128, rounding: Rounding) -> Option<i128> {
    let unit = u128::try_from(unit_nanos).ok()?;
    let (high, low) = wide::mul(nanos.unsigned_abs(), ratio.num());
    // A product that needs more than 128 bits cannot come below 2^127 by rounding to a unit below 2^127.
    let (product, rest) = wide::div(high, low, ratio.den())?;
    let mut multiples = product.checked_div(unit)?;
    if rounding == Rounding::Up && (rest != 0 || !product.is_multiple_of(unit)) {
        multiples = multiples.checked_add(1)?;
    }
    let magnitude = multiples.checked_mul(unit)?;
    if nanos < 0 { 0i128.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() }
}
