//! Which language a text is probably in: by its script, and where many languages share one, by the small
//! words that every sentence has.

use serde::Serialize;

use super::words::{Script, Word};

/// A language by its script or its small words.
pub(super) struct Language {
    pub(super) code: &'static str,
    /// Words that say little by themselves.
    pub(super) small: &'static [&'static str],
    /// Letters that the others of its script do not have, or seldom.
    letters: &'static str,
}

/// The guess.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Guess {
    /// ISO 639-1; `und` for unknown.
    pub(super) code: &'static str,
    /// Of a hundred.
    pub(super) confidence: usize,
}

const fn language(code: &'static str, letters: &'static str, small: &'static [&'static str]) -> Language {
    Language { code, small, letters }
}

/// Languages in Latin letters.
const LATIN: &[Language] = &[
    language(
        "en",
        "",
        &[
            "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
            "can", "could", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how",
            "i", "if", "in", "into", "is", "it", "it's", "its", "may", "me", "more", "my", "no", "not", "of",
            "on", "one", "only", "or", "other", "our", "out", "over", "she", "should", "so", "some", "than",
            "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "up", "was",
            "we", "were", "what", "when", "where", "which", "who", "will", "with", "would", "you", "your",
        ],
    ),
    language(
        "es",
        "ñ¿¡",
        &[
            "a", "al", "algo", "ante", "como", "con", "cual", "cuando", "de", "del", "desde", "el", "ella",
            "en", "entre", "era", "es", "esa", "ese", "esta", "este", "está", "esto", "fue", "ha", "hace",
            "hasta", "hay", "la", "las", "le", "les", "lo", "los", "mas", "me", "mi", "mucho", "muy", "más",
            "ni", "no", "nos", "o", "otra", "otro", "para", "pero", "por", "porque", "puede", "que", "qué",
            "se", "ser", "si", "sin", "sobre", "solo", "son", "su", "sus", "sí", "también", "te", "tiene",
            "todo", "un", "una", "uno", "y", "ya", "yo",
        ],
    ),
    language(
        "pt",
        "ãõ",
        &[
            "a", "ao", "aos", "as", "até", "com", "como", "da", "das", "de", "do", "dos", "e", "ela", "ele",
            "em", "entre", "era", "essa", "esse", "esta", "este", "eu", "foi", "há", "isso", "já", "mais",
            "mas", "me", "mesmo", "na", "nas", "no", "nos", "não", "o", "os", "ou", "para", "pela", "pelo",
            "pode", "por", "que", "quando", "se", "sem", "ser", "seu", "sua", "são", "também", "tem", "um",
            "uma", "você", "é",
        ],
    ),
    language(
        "fr",
        "œ",
        &[
            "au", "aux", "avec", "ce", "ces", "cette", "comme", "dans", "de", "des", "du", "elle", "elles",
            "en", "est", "et", "eux", "il", "ils", "je", "la", "le", "les", "leur", "lui", "mais", "me",
            "même", "ne", "nous", "on", "ou", "où", "par", "pas", "peut", "plus", "pour", "qu", "que", "qui",
            "sa", "se", "ses", "si", "son", "sont", "sur", "tu", "un", "une", "vous", "à", "été", "être",
        ],
    ),
    language(
        "de",
        "ß",
        &[
            "aber", "als", "am", "an", "auch", "auf", "aus", "bei", "bin", "bis", "das", "dass", "dem",
            "den", "der", "des", "die", "durch", "ein", "eine", "einem", "einen", "einer", "einmal", "er",
            "es", "für", "hat", "ich", "ihr", "im", "in", "ist", "kann", "mit", "nach", "nicht", "noch",
            "nur", "oder", "sich", "sie", "sind", "so", "um", "und", "uns", "von", "vor", "war", "was",
            "wenn", "werden", "wie", "wir", "wird", "zu", "zum", "zur", "über",
        ],
    ),
    language(
        "it",
        "",
        &[
            "a", "ai", "al", "alla", "anche", "che", "chi", "ci", "come", "con", "cui", "da", "dal", "dalla",
            "dei", "del", "della", "di", "e", "gli", "ha", "hanno", "i", "il", "in", "io", "la", "le", "lei",
            "lo", "ma", "mi", "nel", "nella", "non", "o", "per", "perché", "più", "può", "quando", "quella",
            "questa", "questo", "se", "si", "sono", "su", "sul", "tra", "un", "una", "uno", "è",
        ],
    ),
];

/// Languages that their script gives away.
const BY_SCRIPT: &[Language] = &[
    language("ja", "", &["こと", "もの", "ため", "これ", "それ", "する", "ある"]),
    language("zh", "", &["我们", "他们", "这个", "可以", "一个", "没有"]),
    language("ko", "", &["있습니다", "합니다", "그리고", "하지만", "수", "것", "이", "그", "저", "한", "두"]),
    language(
        "ru",
        "",
        &[
            "а", "без", "бы", "быть", "в", "вы", "да", "для", "до", "его", "ее", "если", "же", "за", "и",
            "из", "или", "их", "к", "как", "ко", "мы", "на", "не", "но", "о", "один", "он", "она", "они",
            "оно", "от", "по", "при", "раз", "с", "со", "так", "то", "ты", "у", "что", "это", "я",
        ],
    ),
];

/// The language of this code, if it is known.
pub(super) fn known(code: &str) -> Option<&'static Language> {
    LATIN.iter().chain(BY_SCRIPT).find(|language| language.code == code)
}

/// The language of the text.
pub(super) fn guess(text: &str, words: &[Word<'_>]) -> Guess {
    let letters = |script: Script| -> usize {
        words.iter().filter(|word| word.script == script).map(|word| word.text.chars().count()).sum()
    };
    let kana = letters(Script::Hiragana) + letters(Script::Katakana);
    let (han, hangul) = (letters(Script::Han), letters(Script::Hangul));
    let (cyrillic, latin) = (letters(Script::Cyrillic), letters(Script::Latin));
    let all = kana + han + hangul + cyrillic + latin;
    // Chinese characters also stand in Japanese; kana stand in nothing else.
    let (japanese, chinese) = if kana * 10 >= han { (kana + han, 0) } else { (0, han) };
    let by_script = [("ja", japanese), ("zh", chinese), ("ko", hangul), ("ru", cyrillic)];
    let (code, count) = by_script.into_iter().max_by_key(|(_, count)| *count).unwrap_or(("und", 0));
    if count > latin {
        return Guess { code, confidence: share(count, all) };
    }
    by_small_words(text, words)
}

/// The language in Latin letters most of whose small words are there.
fn by_small_words(text: &str, words: &[Word<'_>]) -> Guess {
    let lower: Vec<String> = words.iter().map(|word| word.text.to_lowercase()).collect();
    let score = |language: &Language| {
        let small = lower.iter().filter(|word| language.small.contains(&word.as_str())).count();
        let letters = text.chars().filter(|letter| language.letters.contains(*letter)).count();
        2 * small + letters.min(10)
    };
    let scores: Vec<(usize, &str)> = LATIN.iter().map(|language| (score(language), language.code)).collect();
    let total: usize = scores.iter().map(|(score, _)| score).sum();
    // The first of equals, so that the order of the table decides and nothing else.
    let best = scores.iter().rev().max_by_key(|(score, _)| *score);
    match best {
        Some((score, code)) if *score > 0 => Guess { code, confidence: share(*score, total) },
        _ => Guess { code: "und", confidence: 0 },
    }
}

fn share(part: usize, whole: usize) -> usize {
    (100 * part + whole / 2) / whole.max(1)
}
