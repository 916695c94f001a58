use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn authority() -> Arc<Authority> {
    let now = "2026-03-01T10:00:00Z".parse().unwrap();
    Arc::new(Authority::make("plimsoll CA", Duration::from_secs(3600), now).unwrap())
}

fn whole() -> Authorities {
    Authorities {
        current: Some(authority()),
        next: Some(authority()),
        previous: vec![authority().root().clone(), authority().root().clone()],
        switched: Some("2026-03-01T10:00:00Z".parse().unwrap()),
        rotated: "because".to_owned(),
    }
}

fn secret(authorities: &Authorities) -> Value {
    with(&json!({"metadata": {"name": "plimsoll-ca", "resourceVersion": "3"}, "type": "Opaque"}), authorities)
}

#[test]
fn what_is_written_is_read_back() {
    let first = Authorities { next: Some(authority()), ..Authorities::default() };
    for (rule, authorities) in [
        ("whole", whole()),
        ("the first", first),
        ("nothing", Authorities::default()),
        ("dropped", whole().dropped()),
    ] {
        let written = secret(&authorities);
        assert_eq!(written["metadata"]["resourceVersion"], "3", "{rule}");
        assert_eq!(read(&written).unwrap(), Content::Ours(authorities), "{rule}");
    }
    let mut noted = secret(&whole());
    noted["data"]["note"] = json!("aGVsbG8=");
    let noted = with(&noted, &whole().switched("2026-03-02T10:00:00Z".parse().unwrap()).dropped());
    assert_eq!(noted["data"]["note"], "aGVsbG8=", "what others put beside it stays");
    assert_eq!((&noted["data"]["next.crt"], &noted["data"]["previous.crt"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_empty_secret_is_empty() {
    for (rule, secret) in [
        ("as it is shipped", json!({"metadata": {"name": "plimsoll-ca"}, "type": "Opaque"})),
        ("no data", json!({"data": {}})),
        ("null", json!({"data": null})),
        ("no object", json!("hello")),
    ] {
        assert_eq!(read(&secret), Ok(Content::Empty), "{rule}");
    }
}

#[test]
fn what_is_wrong_is_told_and_keys_are_not() {
    type Change = fn(&mut Value);
    fn set(data: &mut Value, key: &str, text: &str) {
        data[key] = json!(BASE64_STANDARD.encode(text));
    }
    fn drop_key(data: &mut Value, key: &str) {
        data.as_object_mut().unwrap().remove(key);
    }
    let rows: [(&str, Change, &str); 15] = [
        (
            "cert-manager's",
            |data| *data = json!({"tls.crt": "", "tls.key": "", "ca.crt": ""}),
            "holds ca.crt, tls.crt, tls.key, which Plimsoll did not write",
        ),
        ("no mark", |data| drop_key(data, "format"), "which Plimsoll did not write"),
        ("a newer one", |data| set(data, "format", "plimsoll-ca/2"), "is of format \"plimsoll-ca/2\""),
        ("no key", |data| drop_key(data, "ca.key"), "half-written: it has ca.crt and no ca.key"),
        ("no certificate", |data| drop_key(data, "ca.crt"), "half-written: it has ca.key and no ca.crt"),
        ("no next key", |data| drop_key(data, "next.key"), "half-written: it has next.crt and no next.key"),
        ("no base64", |data| data["ca.crt"] = json!("%"), "ca.crt: is not base64"),
        ("a number", |data| data["ca.key"] = json!(5), "ca.key: is no text"),
        ("nothing", |data| data["ca.key"] = json!(""), "ca.key: is empty"),
        ("bytes", |data| data["ca.crt"] = json!("/w=="), "ca.crt: is not UTF-8"),
        ("words", |data| set(data, "ca.crt", "hello"), "ca.crt and ca.key: holds no certificate"),
        ("words as a key", |data| set(data, "ca.key", "hello"), "ca.crt and ca.key: holds no private key"),
        (
            "keys in each other's place",
            |data| {
                let key = data["ca.key"].take();
                data["ca.key"] = data["next.key"].take();
                data["next.key"] = key;
            },
            "ca.crt and ca.key: the key does not belong to the certificate",
        ),
        (
            "half of a former one",
            |data| set(data, "previous.crt", "-----BEGIN CERTIFICATE-----\nMIIB"),
            "previous.crt: holds no certificate that can be read",
        ),
        ("no time", |data| set(data, "switched", "yesterday"), "switched: \"yesterday\" is no time"),
    ];
    for (rule, change, begins) in rows {
        let authorities = whole();
        let mut secret = secret(&authorities);
        change(&mut secret["data"]);
        let error = read(&secret).unwrap_err().to_string();
        assert!(error.contains(begins), "{rule}: {error}");
        assert!(!error.contains("PRIVATE"), "{rule}: {error}");
        let ours = !error.contains("did not write") && !error.contains("is of format");
        assert_eq!(error.contains("restore it from a backup, or empty it"), ours, "{rule}: {error}");
    }
}

#[test]
fn the_wish_for_a_rotation() {
    let with = |value: Value| json!({"metadata": {"annotations": {ROTATE: value}}});
    for (rule, secret, expected) in [
        ("none", json!({"metadata": {}}), None),
        ("anything", with(json!("2026-03-01")), Some("2026-03-01")),
        ("nothing", with(json!("")), None),
        ("no text", with(json!(5)), None),
    ] {
        assert_eq!(rotate(&secret), expected, "{rule}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever stands there: no panic, and nothing but an empty Secret or ours is taken for one.
    #[test]
    fn garbage_is_refused(
        key in 0_usize..KEYS.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        cut in 0_usize..2000,
    ) {
        let mut damaged = secret(&whole());
        let key = KEYS[key];
        damaged["data"][key] = json!(BASE64_STANDARD.encode(&bytes));
        if let Ok(content) = read(&damaged) {
            let texts = ["rotated", "previous.crt"];
            prop_assert!(texts.contains(&key) || key == "switched", "{key}: {content:?}");
        }
        // The same cut off somewhere, as a slip with an editor leaves it.
        let mut cut_off = secret(&whole());
        let text = BASE64_STANDARD.decode(cut_off["data"][key].as_str().unwrap()).unwrap();
        let rest = &text[..cut.min(text.len().saturating_sub(2))];
        cut_off["data"][key] = json!(BASE64_STANDARD.encode(rest));
        if matches!(key, "format" | "ca.crt" | "ca.key" | "next.crt" | "next.key") {
            prop_assert!(read(&cut_off).is_err(), "{key} cut to {}", rest.len());
        }
    }
}
