//! A text as words and sentences.

/// How a letter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Latin,
    Cyrillic,
    Hangul,
    Han,
    Hiragana,
    Katakana,
    Other,
}

impl Script {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Latin,
            '\u{400}'..='\u{52f}' => Self::Cyrillic,
            '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}' => Self::Hangul,
            '\u{3041}'..='\u{309f}' => Self::Hiragana,
            '\u{30a0}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}' => Self::Katakana,
            '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '々' => Self::Han,
            _ => Self::Other,
        }
    }

    /// Its words stand apart. Where they do not, each run of one script counts as a word.
    pub(super) fn sets_words_apart(self) -> bool {
        !matches!(self, Self::Han | Self::Hiragana | Self::Katakana)
    }
}

/// A word, by the script of its first letter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) script: Script,
}

/// The words, in order.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut open: Option<(usize, Script)> = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        if let Some((from, script)) = open
            && !goes_on(script, letter, next)
        {
            words.push(Word { text: &text[from..at], script });
            open = None;
        }
        if open.is_none() && letter.is_alphanumeric() {
            open = Some((at, Script::of(letter)));
        }
    }
    if let Some((from, script)) = open {
        words.push(Word { text: &text[from..], script });
    }
    words
}

fn goes_on(script: Script, letter: char, next: Option<char>) -> bool {
    if letter.is_alphanumeric() || letter == 'ー' {
        let apart = Script::of(letter).sets_words_apart();
        return if script.sets_words_apart() && apart { true } else { script == Script::of(letter) };
    }
    // What joins: it's, well-known, 3.14.
    let joins = matches!(letter, '\'' | '’' | '-' | '.' | ',' | '\u{301}');
    joins
        && script.sets_words_apart()
        && next.is_some_and(|next| match letter {
            '.' | ',' => next.is_ascii_digit(),
            _ => next.is_alphanumeric() && Script::of(next).sets_words_apart(),
        })
}

/// How many sentences there are. A text without an end mark is one, if it says anything.
pub(super) fn sentences(text: &str) -> usize {
    let (mut count, mut says) = (0, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends = match letter {
            '!' | '?' | '…' | '。' | '！' | '？' | '؟' | '।' => true,
            // Not in 3.14, nor in example.org.
            '.' => letters.peek().is_none_or(|next| !next.is_alphanumeric()),
            // A blank line ends a heading.
            '\n' => letters.peek() == Some(&'\n'),
            _ => false,
        };
        if ends && says {
            count += 1;
            says = false;
        } else if letter.is_alphanumeric() {
            says = true;
        }
    }
    count + usize::from(says)
}
