//! As much of `PromQL` as it takes to know which metrics and labels an expression names.

use std::collections::BTreeSet;

/// A metric, and what its labels are compared with.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    /// Label and value; of `=~` each alternative by itself.
    pub(crate) matchers: Vec<(String, String)>,
}

/// What an expression names.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) selectors: Vec<Selector>,
    /// Labels in `by`, `on` and the like.
    pub(crate) grouping: BTreeSet<String>,
    /// The label that each `label_replace` makes.
    pub(crate) made: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Other(char),
}

/// Words that stand before a list of labels in parentheses.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words that stand alone and are no metrics.
const KEYWORDS: [&str; 6] = ["and", "or", "unless", "offset", "bool", "atan2"];
/// What may have a `by` before its parentheses.
const AGGREGATORS: [&str; 6] = ["sum", "max", "min", "count", "avg", "topk"];

pub(crate) fn named(expression: &str) -> Named {
    let tokens = tokens(expression);
    let mut named = Named::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1);
        at += 1;
        let Token::Word(word) = token else { continue };
        if GROUPING.contains(&word.as_str()) {
            while let Some(token) = tokens.get(at).filter(|token| **token != Token::Other(')')) {
                if let Token::Word(label) = token {
                    named.grouping.insert(label.clone());
                }
                at += 1;
            }
        } else if next == Some(&Token::Other('{')) {
            named.selectors.push(selector(word, &tokens, &mut at));
        } else if word == "label_replace" {
            // The first text after it is the name of the label that it makes.
            let label = tokens[at..].windows(2).find_map(|pair| match pair {
                [Token::Other(','), Token::Text(label)] => Some(label.clone()),
                _ => None,
            });
            named.made.extend(label);
        } else if next != Some(&Token::Other('('))
            && !KEYWORDS.contains(&word.as_str())
            && !AGGREGATORS.contains(&word.as_str())
        {
            named.selectors.push(Selector { metric: word.clone(), matchers: Vec::new() });
        }
    }
    named
}

/// Reads `{label="value", ...}`; `at` is that of the brace, and then of what comes after.
fn selector(metric: &str, tokens: &[Token], at: &mut usize) -> Selector {
    let mut selector = Selector { metric: metric.to_owned(), ..Selector::default() };
    let mut label = String::new();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token {
            Token::Other('}') => return selector,
            Token::Word(word) => label.clone_from(word),
            Token::Text(value) => {
                let values = value.split('|').map(|value| (label.clone(), value.to_owned()));
                selector.matchers.extend(values);
            }
            Token::Other(_) => {}
        }
    }
    panic!("a brace of {metric} is not closed");
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let of = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
        let end = if first == '"' {
            let end = rest[1..].find('"').expect("a text is closed") + 2;
            tokens.push(Token::Text(rest[1..end - 1].to_owned()));
            end
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = of(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else if first.is_ascii_digit() || first == '$' {
            // Numbers, durations and variables of the dashboard.
            of(|c| c.is_ascii_alphanumeric() || ['$', '_', '.'].contains(&c))
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Other(first));
            }
            first.len_utf8()
        };
        rest = &rest[end..];
    }
    tokens
}

#[test]
fn what_an_expression_names() {
    let named = named(
        r#"label_replace(sum by (stage, le) (rate(a_total{x!="1", y=~"p|q"}[5m])) > 0.5e3, "new", "v", "", "")
           unless on (stage) b offset 1d == bool time() - $__range"#,
    );
    let metrics: Vec<&str> = named.selectors.iter().map(|selector| selector.metric.as_str()).collect();
    assert_eq!(metrics, ["a_total", "b"]);
    let matchers = [("x", "1"), ("y", "p"), ("y", "q")].map(|(label, value)| (label.into(), value.into()));
    assert_eq!(named.selectors[0].matchers, matchers);
    assert_eq!(named.grouping.iter().collect::<Vec<_>>(), ["le", "stage"]);
    assert_eq!(named.made.iter().collect::<Vec<_>>(), ["new"]);
}
