//! The interval of a share that was counted.

/// The exact interval of a share by Clopper and Pearson, of which the true one lies outside in at most 5 % of all
/// samples: `hits` of `of`. Nothing counted says nothing: 0 to 1.
///
/// C. J. Clopper, E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial,
/// Biometrika 26 (1934), 404–413. The limits are found by bisection on the binomial distribution itself.
pub fn exact_interval(hits: u64, of: u64) -> (f64, f64) {
    const TAIL: f64 = 0.025;
    if of == 0 {
        return (0.0, 1.0);
    }
    let hits = hits.min(of);
    let low = match hits {
        0 => 0.0,
        _ => bisect(|p| 1.0 - at_most(hits - 1, of, p) < TAIL),
    };
    let high = if hits == of {
        1.0
    } else {
        bisect(|p| at_most(hits, of, p) > TAIL)
    };
    (low, high)
}

/// Where `below` stops to hold between 0 and 1.
fn bisect(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Probability of at most `hits` of `of`, each with `p`.
fn at_most(hits: u64, of: u64, p: f64) -> f64 {
    if p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return if hits >= of { 1.0 } else { 0.0 };
    }
    let (ln_p, ln_q) = (p.ln(), (-p).ln_1p());
    let n = of as f64;
    let mut ln_choose = 0.0;
    let mut sum = 0.0;
    for k in 0..=hits {
        let k = k as f64;
        if k > 0.0 {
            ln_choose += ((n - k + 1.0) / k).ln();
        }
        sum += (ln_choose + k * ln_p + (n - k) * ln_q).exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_tables() {
        // 0 of n: the upper limit is 1 - 0.025^(1/n).
        let (low, high) = exact_interval(0, 1000);
        assert_eq!(low, 0.0);
        assert!((high - (1.0 - 0.025_f64.powf(0.001))).abs() < 1e-9);
        // 10 of 100: 0.0490 to 0.1762, as in every table of binomial limits.
        let (low, high) = exact_interval(10, 100);
        assert!((low - 0.0490).abs() < 1e-4 && (high - 0.1762).abs() < 1e-4);
        assert_eq!(exact_interval(5, 5).1, 1.0);
        assert_eq!(exact_interval(0, 0), (0.0, 1.0));
    }
}
