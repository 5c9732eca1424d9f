//! The analysis that is built in: what a text is like. The same text gives the same result, always.

mod language;
mod terms;
mod words;

use serde::Serialize;
use tenure_core::Json;

use super::{Failure, Job, Runner, Running, Stop};
use language::{Guess, guess};
use terms::{Term, most_frequent};
use words::{Word, sentences, words};

/// Terms that are named.
const TERMS_MAX: usize = 10;
/// A word with more letters than this is long, as the LIX formula has it.
const LONG_LETTERS: usize = 6;

/// Analyses text in this process.
#[derive(Debug)]
pub struct TextAnalyst;

impl Runner for TextAnalyst {
    fn run(&self, job: Job, _stop: Stop) -> Running {
        Box::pin(async move {
            // A bounded input takes milliseconds; there is nothing to stop.
            let analysed = tokio::task::spawn_blocking(move || analyse(&job.input)).await;
            let analysed = analysed.map_err(|error| Failure::new("broken", &error.to_string()))?;
            Json::of(&analysed).map_err(|refusal| Failure::new("broken", &refusal.to_string()))
        })
    }
}

/// What a text is like.
#[derive(Debug, PartialEq, Serialize)]
struct Analysed {
    language: Guess,
    characters: usize,
    words: usize,
    sentences: usize,
    terms: Vec<Term>,
    readability: Readability,
}

/// How hard it is to read.
#[derive(Debug, PartialEq, Serialize)]
struct Readability {
    /// `lix`: words per sentence and the share of long ones. `length`: characters per sentence, for
    /// scripts that do not set words apart.
    formula: &'static str,
    /// Higher is harder.
    score: u32,
    level: &'static str,
}

fn analyse(text: &str) -> Analysed {
    let words = words(text);
    let language = guess(text, &words);
    let sentences = sentences(text);
    Analysed {
        characters: text.chars().count(),
        words: words.len(),
        sentences,
        terms: most_frequent(&words, language.code, TERMS_MAX),
        readability: readability(&words, sentences),
        language,
    }
}

fn readability(words: &[Word<'_>], sentences: usize) -> Readability {
    let sentences = sentences.max(1);
    let letters: usize = words.iter().map(|word| word.text.chars().count()).sum();
    let set_apart = words.iter().filter(|word| word.script.sets_words_apart()).count();
    let score = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    if set_apart * 2 < words.len() {
        let score = score((letters + sentences / 2) / sentences);
        let level = level(score, [25, 40, 60, 80]);
        return Readability { formula: "length", score, level };
    }
    let long = words.iter().filter(|word| word.text.chars().count() > LONG_LETTERS).count();
    let count = words.len().max(1);
    let lix = score((words.len() + sentences / 2) / sentences + (100 * long + count / 2) / count);
    Readability { formula: "lix", score: lix, level: level(lix, [30, 40, 50, 60]) }
}

fn level(score: u32, bounds: [u32; 4]) -> &'static str {
    let levels = ["very_easy", "easy", "medium", "hard", "very_hard"];
    levels[bounds.iter().filter(|bound| score >= **bound).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "The queue delivers a job to the workers, and it may deliver the job twice. Only one \
        worker runs the job. The other worker is told that the job is locked!";
    const SPANISH: &str = "La cola entrega un trabajo a los trabajadores, y puede entregarlo dos veces. Solo un \
        trabajador ejecuta el trabajo. ¿Qué hace el otro? Espera.";
    const JAPANESE: &str =
        "解析ジョブは二回配信されることがあります。解析は一度だけ実行します。ロックは期限で解放されます。";
    const KOREAN: &str =
        "대기열은 작업을 두 번 전달할 수 있습니다. 작업은 한 번만 실행됩니다. 잠금은 만료됩니다.";

    #[test]
    fn languages_are_told_apart() {
        let check = |text: &str, code: &str| {
            let analysed = analyse(text);
            assert_eq!(analysed.language.code, code, "{text} {:?}", analysed.language);
        };
        check(ENGLISH, "en");
        check(SPANISH, "es");
        check(JAPANESE, "ja");
        check(KOREAN, "ko");
        check("Die Warteschlange liefert einen Auftrag zweimal, und er wird nur einmal ausgeführt.", "de");
        check(
            "La file livre une tâche aux ouvriers, et elle peut être livrée deux fois dans la journée.",
            "fr",
        );
        check("A fila entrega uma tarefa aos trabalhadores, e não pode ser executada mais de uma vez.", "pt");
        check("Очередь может доставить задание дважды, но оно выполняется один раз.", "ru");
        check("分析任务可能会被传递两次。", "zh");
        check("12345 -- 67", "und");
        check("zzz qqq", "und");
    }

    #[test]
    fn words_sentences_and_characters_are_counted() {
        let check = |text: &str, expected: (usize, usize, usize)| {
            let analysed = analyse(text);
            assert_eq!((analysed.characters, analysed.words, analysed.sentences), expected, "{text}");
        };
        check("One two three.", (14, 3, 1));
        check("Version 3.14 is out... Really?! Yes", (35, 6, 3));
        check("It's a well-known worker's job.", (31, 5, 1));
        check("¿Qué? ¡Sí!", (10, 2, 2));
        check("解析は一度だけ。終わり！", (12, 6, 2));
        check("작업은 한 번만.", (9, 3, 1));
        check("…", (1, 0, 0));
    }

    #[test]
    fn the_most_frequent_terms_are_those_that_say_something() {
        let terms = |text: &str| {
            let terms = analyse(text).terms;
            terms.into_iter().take(2).map(|term| (term.term, term.count)).collect::<Vec<_>>()
        };
        assert_eq!(terms(ENGLISH), [("job".to_owned(), 4), ("worker".to_owned(), 2)]);
        assert_eq!(terms(SPANISH)[0], ("trabajo".to_owned(), 2));
        assert_eq!(terms(JAPANESE)[0], ("解析".to_owned(), 2));
        assert_eq!(terms(KOREAN)[0], ("작업".to_owned(), 2));
    }

    #[test]
    fn long_words_in_long_sentences_are_harder_to_read() {
        let easy = analyse("The cat sat. The dog ran. I see it.").readability;
        let hard = analyse(
            "Notwithstanding considerable administrative complications, interdepartmental representatives \
             unanimously recommended comprehensive organisational restructuring throughout the institution.",
        );
        assert_eq!((easy.formula, easy.level), ("lix", "very_easy"));
        assert_eq!(hard.readability.level, "very_hard");
        assert_eq!(analyse(JAPANESE).readability.formula, "length");
    }

    #[test]
    fn the_same_text_gives_the_same_result_and_a_small_one() {
        let long = [ENGLISH, SPANISH, JAPANESE, KOREAN, "\u{0}\u{fffd}🦀 "].concat().repeat(200);
        for text in [ENGLISH, SPANISH, JAPANESE, KOREAN, &long, "", &"x".repeat(40_000)] {
            let written = Json::of(&analyse(text)).expect("JSON");
            assert_eq!(written, Json::of(&analyse(text)).expect("JSON"));
            assert!(written.as_str().len() <= super::super::RESULT_BYTES_MAX, "{}", written.as_str().len());
        }
    }
}
