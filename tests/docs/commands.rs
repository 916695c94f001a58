//! Commands in the documents exist, with their flags.

use clap::{Command, CommandFactory as _};

use crate::markdown::{code, documents, root};

/// The words of a command as a shell would split them, up to a pipe, a redirection or a comment.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            ('|' | '>' | '<' | ';' | '&' | ')', None) => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The commands that a console block shows, lines that go on joined.
fn shown(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    joined.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line).trim().to_owned()).collect()
}

fn consoles() -> impl Iterator<Item = (String, String)> {
    documents().into_iter().flat_map(|document| {
        let consoles = document
            .blocks()
            .into_iter()
            .filter(|block| ["console", "sh", "bash", "shell"].contains(&block.language.as_str()));
        let place = document.path.display().to_string();
        consoles
            .flat_map(|block| shown(&block.text))
            .map(move |command| (place.clone(), command))
            .collect::<Vec<_>>()
    })
}

#[test]
fn whole_commands_are_understood() {
    let mut seen = 0;
    for (place, command) in consoles() {
        let Some(at) = command.find("plimsoll ").filter(|at| {
            let before = &command[..*at];
            ["target/debug/", "<(", "kubectl "].iter().any(|end| before.ends_with(end)) || before.is_empty()
        }) else {
            continue;
        };
        let words = words(&command[at..]);
        let parsed = plimsoll::cli::Cli::command().try_get_matches_from(&words);
        if let Err(error) = parsed {
            assert!(!error.use_stderr(), "{place}: {command}: {error}");
        }
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} commands were found");
}

#[test]
fn commands_in_the_text_have_their_flags() {
    let program = plimsoll::cli::Cli::command();
    let mut seen = 0;
    for document in documents() {
        for (line, text) in document.prose() {
            let commands = code(text).map(|code| code.strip_prefix("kubectl ").unwrap_or(code));
            for command in commands.filter(|code| code.starts_with("plimsoll ")) {
                if let Err(error) = known(&program, &words(command)) {
                    panic!("{}:{line}: `{command}`: {error}", document.path.display());
                }
                seen += 1;
            }
        }
    }
    assert!(seen >= 10, "only {seen} commands were found");
}

/// Whether the subcommands and flags exist. What is a value cannot be told, so other words are not judged.
fn known(program: &Command, words: &[String]) -> Result<(), String> {
    let mut command = program;
    let mut has_value = false;
    for word in words.iter().skip(1) {
        let flag = word.split('=').next().unwrap_or_default();
        let globals = program.get_arguments();
        let mut arguments = command.get_arguments().chain(globals);
        if let Some(long) = flag.strip_prefix("--") {
            let found = arguments.find(|argument| argument.get_long() == Some(long));
            let found = found.ok_or_else(|| format!("{} has no --{long}", command.get_name()))?;
            has_value = found.get_action().takes_values();
        } else if let Some(short) = flag.strip_prefix('-').and_then(|flags| flags.chars().next()) {
            let found = arguments.find(|argument| argument.get_short() == Some(short));
            let found = found.ok_or_else(|| format!("{} has no -{short}", command.get_name()))?;
            has_value = found.get_action().takes_values();
        } else if let Some(subcommand) = command.find_subcommand(word) {
            command = subcommand;
        } else if command.has_subcommands() && !has_value && command.get_name() != "certs" {
            return Err(format!("{} has no command {word}", command.get_name()));
        } else {
            has_value = false;
        }
    }
    Ok(())
}

#[test]
fn targets_of_make_and_folders_of_kubectl_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    for (place, command) in consoles() {
        let words = words(&command);
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["make", target, ..] => {
                assert!(makefile.contains(&format!("\n{target}: ")), "{place}: {command}: no such target");
            }
            ["kubectl", "apply" | "delete" | "kustomize", "-k" | "-f", path, ..]
                if path.starts_with("webhook-config") || path.starts_with("examples") =>
            {
                assert!(root().join(path).exists(), "{place}: {command}: no such path");
            }
            _ => {}
        }
    }
}
