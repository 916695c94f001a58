//! The sum of what a pod's containers request, as the API server and the scheduler form it.

/// How one container enters the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Runs with the other app containers and the sidecars.
    App,
    /// Runs to its end before the app containers start.
    Init,
    /// A restartable init container: starts in its turn and keeps running.
    Sidecar,
}

/// The greater of (app containers + sidecars) and, for each init container, (itself + the sidecars
/// before it). Values are nano-units in the order of the pod's lists, init containers after app
/// containers or before them.
///
/// `None` if a sum leaves the range of a quantity.
pub fn aggregate(values: impl IntoIterator<Item = (Part, i128)>) -> Option<i128> {
    let mut running: i128 = 0;
    let mut sidecars: i128 = 0;
    let mut walk: i128 = 0;
    for (part, value) in values {
        match part {
            Part::App => running = running.checked_add(value)?,
            Part::Sidecar => {
                running = running.checked_add(value)?;
                sidecars = sidecars.checked_add(value)?;
                walk = walk.max(sidecars);
            }
            Part::Init => walk = walk.max(sidecars.checked_add(value)?),
        }
    }
    Some(running.max(walk))
}

#[cfg(test)]
mod tests {
    use super::{Part, aggregate};

    #[test]
    fn sums() {
        use Part::{App, Init, Sidecar};
        for (rule, parts, expected) in [
            ("sidecar before init: init runs beside it", vec![(App, 100), (Sidecar, 100), (Init, 200)], 300),
            ("init before sidecar: init runs alone", vec![(App, 100), (Init, 200), (Sidecar, 100)], 200),
            ("two sidecars", vec![(App, 100), (Sidecar, 50), (Init, 10), (Sidecar, 70)], 220),
            ("app containers add up", vec![(App, 100), (App, 200)], 300),
            ("a large init container counts alone", vec![(App, 1), (Init, 2)], 2),
            ("nothing", vec![], 0),
        ] {
            assert_eq!(aggregate(parts), Some(expected), "{rule}");
        }
        assert_eq!(aggregate([(App, i128::MAX), (App, 1)]), None, "no wrap");
    }
}
