//! The words that a text is about: the most frequent ones that say something.

use std::collections::BTreeMap;

use serde::Serialize;

use super::language::known;
use super::words::{Script, Word};

/// A longer one is no word; it would only fill the result.
const TERM_CHARS_MAX: usize = 64;

/// Endings of Korean nouns, the longer ones first.
const PARTICLES: &[&str] = &[
    "에서는",
    "으로는",
    "에서",
    "으로",
    "에게",
    "까지",
    "부터",
    "은",
    "는",
    "이",
    "가",
    "을",
    "를",
    "의",
    "에",
    "도",
    "로",
    "와",
    "과",
    "만",
];

/// A term, and how often it stands there.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Term {
    pub(super) term: String,
    pub(super) count: usize,
}

/// The most frequent terms; of equals, those that come first in the alphabet.
pub(super) fn most_frequent(words: &[Word<'_>], language: &str, limit: usize) -> Vec<Term> {
    let small = known(language).map_or(&[][..], |language| language.small);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in words {
        let lower = word.text.to_lowercase();
        if small.contains(&lower.as_str()) {
            continue;
        }
        let term = stem(&lower, word.script);
        if says_something(term, word.script) && !small.contains(&term) {
            *counts.entry(term.to_owned()).or_default() += 1;
        }
    }
    let mut terms: Vec<Term> = counts.into_iter().map(|(term, count)| Term { term, count }).collect();
    // Stable: within a count the alphabet stays.
    terms.sort_by_key(|term| std::cmp::Reverse(term.count));
    terms.truncate(limit);
    terms
}

fn stem(word: &str, script: Script) -> &str {
    match script {
        Script::Hangul => {
            let stem = PARTICLES.iter().find_map(|particle| word.strip_suffix(particle));
            stem.filter(|stem| stem.chars().count() > 1).unwrap_or(word)
        }
        _ => word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word),
    }
}

fn says_something(term: &str, script: Script) -> bool {
    let letters = term.chars().count();
    let enough = match script {
        // What is in hiragana is grammar for the most part: short particles, long endings of verbs.
        Script::Hiragana => (4..=6).contains(&letters),
        _ => letters > 1,
    };
    enough && letters <= TERM_CHARS_MAX && term.chars().any(char::is_alphabetic)
}
