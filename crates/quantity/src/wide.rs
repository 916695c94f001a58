//! 256-bit products and quotients, as far as exact ratios need them.

/// `a * b` as (high, low) halves of 128 bits.
pub(crate) const fn mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    // Each partial product is at most (2^64 - 1)^2, which leaves room for two more 64-bit numbers.
    let middle = a1 * b0 + (low >> 64);
    let cross = a0 * b1 + (middle & LOW);
    (a1 * b1 + (middle >> 64) + (cross >> 64), (cross << 64) | (low & LOW))
}

/// (`high`, `low`) divided by `divisor`: quotient and remainder, or `None` if the divisor is zero or the
/// quotient does not fit in 128 bits.
pub(crate) const fn div(high: u128, low: u128, divisor: u128) -> Option<(u128, u128)> {
    if high >= divisor {
        return None;
    }
    if high == 0 {
        return Some((low / divisor, low % divisor));
    }
    // Binary long division. `remainder` stays below the divisor, so that one bit more decides a step.
    let (mut remainder, mut quotient) = (high, 0u128);
    let mut bit = 128;
    while bit > 0 {
        bit -= 1;
        let carry = remainder >> 127 != 0;
        remainder = (remainder << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry || remainder >= divisor {
            remainder = remainder.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    Some((quotient, remainder))
}
