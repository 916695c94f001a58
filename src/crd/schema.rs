//! The parts of the schemas that types alone cannot say: patterns, ranges, keys, and rules in CEL.
//!
//! Every string has a longest length and every list and map a largest size, so that the API server can tell in
//! advance what the rules cost.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Plain decimals as `plimsoll_quantity::Ratio` reads them.
const DECIMAL: &str = r"^[0-9]{1,18}(\.[0-9]{1,18})?$";
const DECIMAL_LENGTH: u32 = 37;
/// Quantities that are not negative, and below what a quantity can hold whatever the suffix.
const QUANTITY: &str = concat!(
    r"^\+?([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMG]i|[numkMG]|[eE][+-]?[0-9])?$",
    r"|^\+?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})[TPE]i?$",
);
/// Amounts that are whole and above zero, with the same bounds.
const WHOLE_QUANTITY: &str = r"^[1-9][0-9]{0,17}([KMG]i|[kMG])?$|^[1-9][0-9]{0,8}[TPE]i?$";
const QUANTITY_LENGTH: u32 = 32;
const DURATION: &str = r"^[0-9]+[smhd]$";
const POSITIVE_DURATION: &str = r"^0*[1-9][0-9]*[smhd]$";
const DURATION_LENGTH: u32 = 10;
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const POOL: &str = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const KIND: &str = r"^[A-Z][A-Za-z0-9]*$";

fn rule(rule: &str, message: &str) -> Value {
    json!([{ "rule": rule, "message": message }])
}

/// A map with one entry a resource.
fn by_resource(resources: &[&str], value: &Value) -> Schema {
    let keys = resources.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    json_schema!({
        "type": "object",
        "maxProperties": resources.len(),
        "additionalProperties": value,
        "x-kubernetes-validations": rule(
            &format!("self.all(key, key in [{keys}])"),
            &format!("only {} can be given here", resources.join(", ")),
        ),
    })
}

const LOWERED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const RECOMMENDED: [&str; 2] = ["cpu", "memory"];

fn decimal(from_to: &str, message: &str) -> Value {
    json!({
        "type": "string",
        "pattern": DECIMAL,
        "maxLength": DECIMAL_LENGTH,
        "x-kubernetes-validations": rule(from_to, message),
    })
}

fn amount(pattern: &str, least: u32) -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "pattern": pattern,
        "maxLength": QUANTITY_LENGTH,
        "minimum": least,
    })
}

fn text(pattern: &str, longest: u32) -> Value {
    json!({ "type": "string", "pattern": pattern, "maxLength": longest })
}

fn words(item: &Value) -> Schema {
    json_schema!({ "type": "array", "x-kubernetes-list-type": "set", "maxItems": 64, "items": item })
}

pub(super) fn factors(_: &mut SchemaGenerator) -> Schema {
    let value = decimal("double(self) > 0.0 && double(self) <= 1.0", "a factor is above 0 and at most 1");
    by_resource(&LOWERED, &value)
}

pub(super) fn minimum(_: &mut SchemaGenerator) -> Schema {
    by_resource(&LOWERED, &amount(QUANTITY, 0))
}

pub(super) fn rounding(_: &mut SchemaGenerator) -> Schema {
    from_value(amount(WHOLE_QUANTITY, 1))
}

pub(super) fn percentile(_: &mut SchemaGenerator) -> Schema {
    by_resource(&RECOMMENDED, &json!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 100 }))
}

pub(super) fn half_life(_: &mut SchemaGenerator) -> Schema {
    by_resource(&RECOMMENDED, &text(POSITIVE_DURATION, DURATION_LENGTH))
}

pub(super) fn expansion(_: &mut SchemaGenerator) -> Schema {
    let value =
        decimal("double(self) > 0.0 && double(self) <= 1000.0", "an expansion is above 0 and at most 1000");
    by_resource(&RECOMMENDED, &value)
}

pub(super) fn margin(_: &mut SchemaGenerator) -> Schema {
    by_resource(&RECOMMENDED, &amount(QUANTITY, 0))
}

pub(super) fn cpu_sample_weight(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": format!("^Request$|{DECIMAL}"),
        "maxLength": DECIMAL_LENGTH,
        "x-kubernetes-validations": rule(
            "self == 'Request' || (double(self) > 0.0 && double(self) <= 1000.0)",
            "a weight is Request, or a number above 0 and at most 1000",
        ),
    })
}

pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    from_value(text(DURATION, DURATION_LENGTH))
}

pub(super) fn positive_duration(_: &mut SchemaGenerator) -> Schema {
    from_value(text(POSITIVE_DURATION, DURATION_LENGTH))
}

pub(super) fn pools(_: &mut SchemaGenerator) -> Schema {
    words(&text(POOL, 63))
}

pub(super) fn workload_kinds(_: &mut SchemaGenerator) -> Schema {
    words(&text(KIND, 63))
}

pub(super) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "maxProperties": 32, "additionalProperties": text(LABEL_VALUE, 63) })
}

pub(super) fn label_key(_: &mut SchemaGenerator) -> Schema {
    from_value(text(LABEL_KEY, 317))
}

/// Not a set: as in every selector of Kubernetes, a value may be given twice.
pub(super) fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 64, "items": text(LABEL_VALUE, 63),
    })
}

/// `values` is needed by some operators and refused by the others.
pub(super) fn expression_rules() -> Value {
    json!([
        {
            "rule": "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
            "message": "In and NotIn need at least one value",
        },
        {
            "rule": "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
            "message": "Exists and DoesNotExist take no values",
        },
    ])
}

/// A quantity that a recommender wrote.
pub(super) fn quantity(_: &mut SchemaGenerator) -> Schema {
    from_value(amount(QUANTITY, 0))
}

/// A point in time in RFC 3339.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A point in time that may be before the year 1, which `date-time` does not take.
pub(super) fn far_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 64 })
}

/// A number as text.
pub(super) fn number_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 64 })
}

/// Weights of buckets: at most 192 of them, each with at most ten characters.
pub(super) fn weights(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 2048 })
}

/// Lines for the program alone.
pub(super) fn peaks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 10000,
        "items": { "type": "string", "maxLength": 1024 },
    })
}

/// A ledger's content: what etcd takes, and no more.
pub(super) fn ledger_data(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 1_400_000 })
}

/// The name of an object.
pub(super) fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 253 })
}

/// A kind or an `apiVersion`.
pub(super) fn type_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 317 })
}

/// Conditions by type, so that writers of different ones do not undo each other.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "maxItems": 16,
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string", "minLength": 1, "maxLength": 316,
                    "description": "What the condition is about, in CamelCase.",
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether it holds.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation of the spec that the condition was found for.",
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status last changed.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, as one word in CamelCase.",
                },
                "message": {
                    "type": "string", "maxLength": 32768,
                    "description": "Why, in words, and what to do about it.",
                },
            },
        },
    })
}

/// A schema from a value that is one; `value` is always an object here.
fn from_value(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}
