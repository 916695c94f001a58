//! Five replicas of 5 CPUs in each of four namespaces, one namespace after the other.

use crate::support::{World, pod, tree};

/// The step, the namespace and how many of its pods; then what is decided of each; then the CPUs used at root, a, b, a1,
/// a2, b1 and b2 after it.
type Step =
    (&'static str, usize, i64, &'static str, &'static [&'static str], &'static [&'static str], [i128; 7]);

#[test]
fn the_walk() {
    let refused_at_2 = &["root.a.a2 cpu", "root.a cpu", "root cpu"][..];
    let root = &["root cpu"][..];
    let steps: [Step; 14] = [
        ("W1", 1, 1, "admit", &[], &[], [5, 5, 0, 5, 0, 0, 0]),
        ("W2-W4", 1, 3, "admit", &[], &[], [20, 20, 0, 20, 0, 0, 0]),
        ("W5", 1, 1, "refuse", &["root.a.a1 cpu"], &[], [20, 20, 0, 20, 0, 0, 0]),
        ("W6-W9", 2, 4, "admit", &[], &[], [40, 40, 0, 20, 20, 0, 0]),
        ("W10", 2, 1, "refuse", refused_at_2, &[], [40, 40, 0, 20, 20, 0, 0]),
        ("W11", 3, 1, "reclaim", root, &["2-4"], [40, 35, 5, 20, 15, 5, 0]),
        ("W12", 3, 1, "reclaim", root, &["1-4"], [40, 30, 10, 15, 15, 10, 0]),
        ("W13 #3", 3, 1, "refuse", root, &[], [40, 30, 10, 15, 15, 10, 0]),
        ("W13 #4", 3, 1, "refuse", root, &[], [40, 30, 10, 15, 15, 10, 0]),
        ("W13 #5", 3, 1, "refuse", root, &[], [40, 30, 10, 15, 15, 10, 0]),
        ("W14", 4, 1, "reclaim", root, &["2-3"], [40, 25, 15, 15, 10, 10, 5]),
        ("W15", 4, 1, "reclaim", root, &["1-3"], [40, 20, 20, 10, 10, 10, 10]),
        ("W16 #3", 4, 1, "refuse", root, &[], [40, 20, 20, 10, 10, 10, 10]),
        ("W16 #4, #5", 4, 2, "refuse", root, &[], [40, 20, 20, 10, 10, 10, 10]),
    ];
    let mut world = World::new(tree());
    let mut created = 0;
    for (step, group, count, verdict, blocked, victims, after) in steps {
        let namespace = format!("namespace{group}");
        for _ in 0..count {
            let judged = world.judge(&namespace, "cpu=5");
            assert_eq!(
                (judged.verdict, &judged.blocked[..]),
                (verdict, &blocked.map_to_owned()[..]),
                "{step}"
            );
            assert_eq!(judged.victims, victims, "{step}");
            for victim in &judged.victims {
                world.pods.remove(victim).unwrap();
            }
            if verdict == "reclaim" {
                assert_eq!(world.judge(&namespace, "cpu=5").verdict, "admit", "{step}: the retry");
            }
            if verdict != "refuse" {
                created += 1;
                let mine = world.pods.values().filter(|pod| *pod.namespace == *namespace).count();
                world.put(pod(&namespace, &format!("{group}-{}", mine + 1), "cpu=5", created));
            }
        }
        assert_eq!(world.cpus(), after, "{step}");
    }
    let left: Vec<&str> = world.pods.keys().map(String::as_str).collect();
    assert_eq!(
        left,
        ["1-1", "1-2", "2-1", "2-2", "3-1", "3-2", "4-1", "4-2"],
        "every namespace has its oldest two"
    );
}

trait MapToOwned {
    fn map_to_owned(&self) -> Vec<String>;
}

impl MapToOwned for &[&str] {
    fn map_to_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}
