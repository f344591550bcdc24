//! Arithmetic of rationals, without the cost of big integers where both sides are small. Exact, as theirs.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

/// The least |numerator| and denominator that are not taken as small: products and sums of two products stay within 128 bits.
const LIMIT: u64 = 1 << 62;

/// Numerator and denominator, if both are small.
fn small(value: &BigRational) -> Option<(i128, i128)> {
    let (top, bottom) = (value.numer().to_i64()?, value.denom().to_i64()?);
    (top.unsigned_abs() < LIMIT && bottom.unsigned_abs() < LIMIT).then(|| (top.into(), bottom.into()))
}

/// top / bottom in lowest terms; the bottom is above 0.
pub(crate) fn reduced(top: i128, bottom: i128) -> BigRational {
    let (mut a, mut b) = (top.unsigned_abs(), bottom.unsigned_abs());
    while b > u128::from(u64::MAX) {
        (a, b) = (b, a % b);
    }
    let common = match (u64::try_from(b), b) {
        (Ok(0), _) => a,
        // From here on in machine words: those of 128 bits are divided slowly.
        (Ok(mut b), wide) => {
            let mut a = u64::try_from(a).unwrap_or_else(|_| (a % wide) as u64);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a.into()
        }
        (Err(_), _) => 1,
    };
    let common = i128::try_from(common.max(1)).unwrap_or(1);
    BigRational::new_raw(BigInt::from(top / common), BigInt::from(bottom / common))
}

/// x + y
pub(crate) fn sum(x: &BigRational, y: &BigRational) -> BigRational {
    match (small(x), small(y)) {
        (Some((a, 1)), Some((b, 1))) => BigRational::new_raw(BigInt::from(a + b), BigInt::from(1)),
        (Some((a, b)), Some((c, d))) => reduced(a * d + c * b, b * d),
        _ => x + y,
    }
}

/// x · y
pub(crate) fn product(x: &BigRational, y: &BigRational) -> BigRational {
    match (small(x), small(y)) {
        (Some((a, b)), Some((c, d))) => reduced(a * c, b * d),
        _ => x * y,
    }
}

/// x / y, for y other than 0
pub(crate) fn quotient(x: &BigRational, y: &BigRational) -> BigRational {
    match (small(x), small(y)) {
        (Some((a, b)), Some((c, d))) if c != 0 => {
            let (top, bottom) = (a * d, b * c);
            if bottom < 0 { reduced(-top, -bottom) } else { reduced(top, bottom) }
        }
        _ => x / y,
    }
}

/// Whether two rationals in lowest terms are equal.
pub(crate) fn same(x: &BigRational, y: &BigRational) -> bool {
    x.numer() == y.numer() && x.denom() == y.denom()
}

#[cfg(test)]
mod tests {
    use num_traits::Zero as _;
    use proptest::prelude::*;

    use super::*;

    /// Small, at the limits, beyond them.
    fn part() -> impl Strategy<Value = i128> {
        let near = |at: i128| (at - 3..at + 3).boxed();
        prop_oneof![-9..10_i128, near(1 << 62), near(-(1 << 62)), near(i64::MAX.into()), any::<i64>().prop_map(i128::from), near(1 << 80)]
    }

    fn rational() -> impl Strategy<Value = BigRational> {
        (part(), part()).prop_filter("no value", |(_, b)| *b != 0).prop_map(|(a, b)| BigRational::new(a.into(), b.into()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn small_and_large_numbers_give_what_big_integers_give(x in rational(), y in rational()) {
            prop_assert_eq!((sum(&x, &y).into_raw(), product(&x, &y).into_raw()), ((&x + &y).into_raw(), (&x * &y).into_raw()));
            if !y.is_zero() {
                prop_assert_eq!(quotient(&x, &y).into_raw(), (&x / &y).into_raw());
            }
            prop_assert_eq!(same(&x, &y), x == y);
        }

        #[test]
        fn lowest_terms_are_those_of_big_integers(top in any::<i128>().prop_map(|t| t / 2), bottom in 1..=i128::MAX) {
            prop_assert_eq!(reduced(top, bottom).into_raw(), BigRational::new(top.into(), bottom.into()).into_raw());
        }
    }
}
