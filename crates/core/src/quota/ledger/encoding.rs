//! The ledger as one short text: a version, and compressed JSON in base64.
//!
//! As typed fields of the object, what the API server decodes, validates and merges for each write costs more than all
//! the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quota::Amounts;
use crate::quota::ledger::{Claim, Ledger, Reservation, ReservationKey, ReservationKind, TreeRef};

/// What a text of this version begins with.
const VERSION: &str = "v1:";
/// The most that a text may become; an object of the API server is far below.
const MOST_BYTES: u64 = 256 << 20;

/// Why a ledger cannot be read.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Another version wrote it.
    #[error(
        "the ledger's data begins with {found:?}, this version reads {VERSION:?}; run one version of the server, or delete the QuotaLedger to have it counted anew"
    )]
    Version {
        /// What it begins with.
        found: String,
    },
    /// It is damaged.
    #[error("the ledger's data is damaged: {0}; delete the QuotaLedger to have it counted anew")]
    Damaged(String),
}

#[derive(Serialize, Deserialize)]
struct Content<'a> {
    epoch: u64,
    tree: TreeRef,
    init: bool,
    next: u64,
    used: BTreeMap<Cow<'a, str>, Amounts>,
    #[serde(borrow)]
    held: Vec<Held<'a>>,
    claims: Vec<Claim>,
}

#[derive(Serialize, Deserialize)]
struct Held<'a> {
    u: Cow<'a, str>,
    k: ReservationKind,
    s: Cow<'a, str>,
    n: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    f: Amounts,
    t: Amounts,
    #[serde(default, skip_serializing_if = "is_zero")]
    a: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The ledger as text.
///
/// # Errors
/// It cannot be written; that does not happen in memory.
pub fn encode(ledger: &Ledger) -> std::io::Result<String> {
    let held = ledger.reservations.iter().map(|(key, reservation)| Held {
        u: Cow::Borrowed(&key.uid),
        k: key.kind,
        s: Cow::Borrowed(&reservation.namespace),
        n: Cow::Borrowed(&reservation.name),
        f: reservation.from.clone(),
        t: reservation.to.clone(),
        a: reservation.asked,
    });
    let content = Content {
        epoch: ledger.epoch,
        tree: ledger.tree.clone(),
        init: ledger.initialised,
        next: ledger.next_claim,
        used: ledger
            .committed
            .iter()
            .map(|(name, sum)| (Cow::Borrowed(name.as_ref()), sum.clone()))
            .collect(),
        held: held.collect(),
        claims: ledger.claims.clone(),
    };
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&serde_json::to_vec(&content)?)?;
    let mut text = VERSION.to_owned();
    STANDARD.encode_string(encoder.finish()?, &mut text);
    Ok(text)
}

/// The ledger that a text says.
///
/// # Errors
/// It is of another version, or damaged.
pub fn decode(text: &str) -> Result<Ledger, DecodeError> {
    let Some(data) = text.strip_prefix(VERSION) else {
        return Err(DecodeError::Version { found: text.chars().take(8).collect() });
    };
    let damaged = |error: &dyn std::fmt::Display| DecodeError::Damaged(error.to_string());
    let compressed = STANDARD.decode(data).map_err(|error| damaged(&error))?;
    let mut json = Vec::new();
    let mut decoder = ZlibDecoder::new(compressed.as_slice()).take(MOST_BYTES);
    decoder.read_to_end(&mut json).map_err(|error| damaged(&error))?;
    let content: Content<'_> = serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
    let mut claims = content.claims;
    claims.sort_by_key(|claim| claim.number);
    let after_last = claims.last().map_or(0, |claim| claim.number.saturating_add(1));
    Ok(Ledger {
        epoch: content.epoch,
        tree: content.tree,
        initialised: content.init,
        next_claim: content.next.max(after_last),
        committed: content.used.into_iter().map(|(name, sum)| (name.into(), sum)).collect(),
        reservations: content
            .held
            .into_iter()
            .map(|held| {
                let key = ReservationKey { uid: held.u.into(), kind: held.k };
                (
                    key,
                    Reservation {
                        namespace: held.s.into(),
                        name: held.n.into(),
                        from: held.f,
                        to: held.t,
                        asked: held.a,
                    },
                )
            })
            .collect(),
        claims,
    })
}
