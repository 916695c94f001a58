//! The reference is what the program says of itself: its command line and its kinds.

use std::fmt::Write as _;
use std::fs;

use clap::{Arg, Command, CommandFactory as _};
use serde_json::Value;

use crate::markdown::root;

/// Compares a page with what the code gives; `UPDATE_DOCS=1` writes it instead.
fn compare(page: &str, text: &str) {
    let path = root().join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "{page} is out of date; run `UPDATE_DOCS=1 cargo test --test docs`");
}

#[test]
fn the_reference_of_commands_is_up_to_date() {
    let mut program = plimsoll::cli::Cli::command();
    program.build();
    let mut text = String::from(
        "# Commands\n\n\
         <!-- Written by `UPDATE_DOCS=1 cargo test --test docs`; change the help of the command instead. -->\n\n\
         Every command with its flags, as the program itself tells them (`plimsoll help`, and `--help` of each command). \
         As [kubectl-plimsoll](../kubectl-plugin.md) the same program is a plugin of kubectl.\n\n\
         Exit codes: 0 done; 1 the input was judged and refused; 2 a mistake in usage or input; 3 something failed while \
         it ran.\n\n",
    );
    writeln!(text, "## Everywhere\n").unwrap();
    arguments(&mut text, program.get_arguments().filter(|argument| argument.is_global_set()));
    for command in program.get_subcommands() {
        section(&mut text, command, 2);
    }
    compare("docs/reference/cli.md", &(text.trim_end().to_owned() + "\n"));
}

/// A command and those below it.
fn section(text: &mut String, command: &Command, level: usize) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap();
    writeln!(text, "{} {name}\n", "#".repeat(level)).unwrap();
    let about = command.get_long_about().or(command.get_about()).unwrap().to_string();
    writeln!(text, "{}\n", plain(&about)).unwrap();
    let usage = command.clone().render_usage().to_string();
    writeln!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim_end()).unwrap();
    arguments(text, command.get_arguments().filter(|argument| !argument.is_global_set()));
    if let Some(help) = command.get_after_help() {
        let help = help.to_string();
        let examples: Vec<&str> =
            help.lines().filter(|line| *line != "EXAMPLES:").map(str::trim_start).collect();
        writeln!(text, "```text\n{}\n```\n", examples.join("\n").trim()).unwrap();
    }
    for below in command.get_subcommands() {
        section(text, below, (level + 1).min(4));
    }
}

fn arguments<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let mut rows = arguments.filter(shown).peekable();
    if rows.peek().is_none() {
        return;
    }
    text.push_str("| argument | meaning |\n| --- | --- |\n");
    for argument in rows {
        let mut names = Vec::new();
        names.extend(argument.get_short().map(|short| format!("-{short}")));
        names.extend(argument.get_long().map(|long| format!("--{long}")));
        let mut name = names.join(", ");
        if argument.get_action().takes_values() {
            let values = argument.get_value_names().unwrap_or_default();
            let values: Vec<String> = values.iter().map(std::string::ToString::to_string).collect();
            name = format!("{name} {}", values.join(" ")).trim().replace('|', "\\|");
        }
        let help = argument.get_long_help().or(argument.get_help());
        let mut meaning = help.map(|help| plain(&help.to_string()).replace('\n', " ")).unwrap_or_default();
        if argument.is_required_set() {
            meaning.push_str(". Must be given");
        }
        let values = argument.get_possible_values();
        if argument.get_action().takes_values() && !values.is_empty() {
            let values: Vec<String> = values
                .iter()
                .filter(|value| !value.is_hide_set())
                .map(|value| match value.get_help() {
                    Some(help) => format!("`{}` ({})", value.get_name(), plain(&help.to_string())),
                    None => format!("`{}`", value.get_name()),
                })
                .collect();
            write!(meaning, ". One of {}", values.join(", ")).unwrap();
        }
        let defaults = argument.get_default_values();
        if argument.get_action().takes_values() && !defaults.is_empty() {
            let defaults: Vec<String> =
                defaults.iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
            write!(meaning, ". Default {}", defaults.join(", ")).unwrap();
        }
        if let Some(variable) = argument.get_env() {
            write!(meaning, ". Also by the environment variable `{}`", variable.to_string_lossy()).unwrap();
        }
        let row = format!("`{name}` | {}", meaning.replace('|', "\\|"));
        writeln!(text, "| {row} |").unwrap();
    }
    text.push('\n');
}

/// Words of the help that a renderer would take for marks.
fn plain(text: &str) -> String {
    text.trim().replace('<', "&lt;").replace('*', "\\*")
}

#[test]
fn the_reference_of_kinds_is_up_to_date() {
    let mut text = String::from(
        "# Kinds\n\n\
         <!-- Written by `UPDATE_DOCS=1 cargo test --test docs`; change the comments in src/crd instead. -->\n\n\
         Every field of the objects that Plimsoll reads and writes, as `kubectl explain` tells them. The definitions are \
         printed by `plimsoll manifests crds`. What a field does is told where its part is described; here is what it may \
         be. `[]` stands for each item of a list, `KEY` for each key of a map. **Bold** fields must be there where what \
         they are in is there.\n\n",
    );
    let definitions = plimsoll::crd::definitions().unwrap();
    for definition in definitions.iter().chain([&plimsoll::crd::resource_flavor()]) {
        kind(&mut text, definition);
    }
    compare("docs/reference/crds.md", &(text.trim_end().to_owned() + "\n"));
}

fn kind(text: &mut String, definition: &Value) {
    let spec = &definition["spec"];
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let versions = spec["versions"].as_array().unwrap();
    let version = versions.iter().find(|version| version["storage"] == true).unwrap();
    let schema = &version["schema"]["openAPIV3Schema"];
    writeln!(text, "## {}\n", word(&spec["names"]["kind"])).unwrap();
    writeln!(text, "{}\n", schema["description"].as_str().unwrap_or_default()).unwrap();
    let scope = if spec["scope"] == "Cluster" { "of the whole cluster" } else { "in a namespace" };
    let short: Vec<String> = spec["names"]["shortNames"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| format!("`{}`", word(name)))
        .collect();
    let short = if short.is_empty() { String::new() } else { format!(", in short {}", short.join(", ")) };
    writeln!(
        text,
        "`apiVersion: {}/{}`, {scope}; for kubectl `{}.{}`{short}.\n",
        word(&spec["group"]),
        word(&version["name"]),
        word(&spec["names"]["plural"]),
        word(&spec["group"]),
    )
    .unwrap();
    text.push_str("| field | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for part in ["spec", "status"] {
        if let Some(schema) = schema["properties"].get(part) {
            let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == part));
            field(text, part, schema, required);
        }
    }
    text.push('\n');
}

/// A row for the field, and those below it.
fn field(text: &mut String, path: &str, schema: &Value, required: bool) {
    let name = if required { format!("**`{path}`**") } else { format!("`{path}`") };
    let default = schema.get("default").map(|default| format!("`{default}`")).unwrap_or_default();
    let mut meaning = schema["description"].as_str().unwrap_or_default().to_owned();
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if let Some(message) = rule["message"].as_str().filter(|message| !message.is_empty()) {
            write!(meaning, " Rule: {message}.").unwrap();
        }
    }
    let meaning = plain(&meaning).replace('\n', " ").replace('|', "\\|");
    writeln!(text, "| {name} | {} | {default} | {meaning} |", type_of(schema)).unwrap();
    below(text, path, schema);
}

fn below(text: &mut String, path: &str, schema: &Value) {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        // A node of a tree: its children have the same fields, to any depth.
        if name == "children" {
            let description = part["description"].as_str().unwrap_or_default();
            writeln!(text, "| `{path}.children` | list of objects | | {description} |").unwrap();
            continue;
        }
        field(text, &format!("{path}.{name}"), part, required(name));
    }
    if let Some(items) = schema.get("items") {
        below(text, &format!("{path}[]"), items);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        below(text, &format!("{path}.KEY"), values);
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        return values.join(", ");
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("list of {}", plural(&type_of(&schema["items"]))),
        Some("object") if schema.get("additionalProperties").is_some_and(Value::is_object) => {
            format!("map of {}", plural(&type_of(&schema["additionalProperties"])))
        }
        Some("object") => "object".to_owned(),
        _ => "any".to_owned(),
    }
}

fn plural(name: &str) -> String {
    match name {
        "object" => "objects".to_owned(),
        "text" => "texts".to_owned(),
        "number" => "numbers".to_owned(),
        "any" => "quantities".to_owned(),
        "number or text" => "numbers or texts".to_owned(),
        other => other.to_owned(),
    }
}
