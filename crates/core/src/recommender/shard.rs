//! Which part of the work a namespace belongs to.

/// The shard, from 0, that a namespace belongs to where there are so many of them. It stays the same over
/// versions of the program and on every machine: replicas of two versions must agree during an update.
pub fn shard_of(namespace: &str, shards: u32) -> u32 {
    // FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
    let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let shard = hash % u64::from(shards.max(1));
    u32::try_from(shard).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn namespaces_stay_where_they_are() {
        for (rule, namespace, shards, expected) in [
            ("one shard", "shop", 1, 0),
            ("no shard is one", "shop", 0, 0),
            ("the hash of nothing is the offset basis", "", 7, 0xcbf2_9ce4_8422_2325_u64 % 7),
            (
                "the hash of a, from the algorithm's own test suite",
                "a",
                1000,
                0xaf63_dc4c_8601_ec8c_u64 % 1000,
            ),
            ("the hash of foobar, likewise", "foobar", 1000, 0x8594_4171_f739_67e8_u64 % 1000),
        ] {
            assert_eq!(u64::from(shard_of(namespace, shards)), expected, "{rule}");
        }
    }

    #[test]
    fn namespaces_are_spread() {
        let mut counts = [0_u32; 4];
        for n in 0..1000 {
            counts[shard_of(&format!("team-{n}"), 4) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
    }
}
