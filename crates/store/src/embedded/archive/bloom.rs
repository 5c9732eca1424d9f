//! A small filter beside each chunk of events: it says for sure that a chunk has nothing about an
//! actor, an action, an item or a claim, so that a search does not open it.
//!
//! The bits are on disk: the hash and the number of probes are part of the archive's format.

use tenure_core::Event;

const PROBES: u32 = 6;
/// About one false "maybe" in a hundred.
const BITS_PER_WORD: usize = 10;

/// What is searched for: one of the words that an event is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// An actor's id.
    pub fn actor(id: &str) -> Self {
        Self::of(1, id.as_bytes())
    }

    /// An action's name.
    pub fn action(name: &str) -> Self {
        Self::of(2, name.as_bytes())
    }

    /// An item's id.
    pub fn item(id: &str) -> Self {
        Self::of(3, id.as_bytes())
    }

    /// A claim's number.
    pub fn claim(number: u64) -> Self {
        Self::of(4, &number.to_le_bytes())
    }

    fn of(kind: u8, bytes: &[u8]) -> Self {
        // FNV-1a, eight bytes at a time, and a last stir so that every bit counts.
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = (0xcbf2_9ce4_8422_2325 ^ u64::from(kind)).wrapping_mul(PRIME);
        let mut parts = bytes.chunks_exact(8);
        for part in parts.by_ref() {
            hash = (hash ^ u64::from_le_bytes(part.try_into().expect("eight bytes"))).wrapping_mul(PRIME);
            hash ^= hash >> 29;
        }
        for byte in parts.remainder() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self(hash ^ (hash >> 33))
    }

    fn probes(self, bits: u64) -> impl Iterator<Item = u64> {
        // Two halves of one hash give all the probes.
        let step = self.0.rotate_left(32) | 1;
        (0..u64::from(PROBES)).map(move |probe| {
            let mixed = self.0.wrapping_add(step.wrapping_mul(probe)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let scaled = (u128::from(mixed) * u128::from(bits)) >> 64;
            u64::try_from(scaled).expect("scaled below the number of bits")
        })
    }
}

/// The words that an event is found by. A pause moves every active claim, so it is found by its action.
pub(crate) fn words_of(event: &Event, words: &mut Vec<Word>) {
    words.push(Word::actor(&event.actor.id));
    words.push(Word::action(event.fact.action()));
    words.extend(event.claim().map(Word::claim));
    for item in event.fact.items() {
        words.push(Word::item(item.as_str()));
    }
}

/// Makes the filter of some words.
pub(crate) fn build(words: &[Word]) -> Vec<u8> {
    let mut bytes = vec![0_u8; (words.len() * BITS_PER_WORD).div_ceil(8).max(8)];
    let bits = bytes.len() as u64 * 8;
    for bit in words.iter().flat_map(|word| word.probes(bits)) {
        if let Ok(at) = usize::try_from(bit / 8) {
            bytes[at] |= 1 << (bit % 8);
        }
    }
    bytes
}

/// Whether all the words may be there. No means no.
pub fn may_have(filter: &[u8], words: &[Word]) -> bool {
    let bits = filter.len() as u64 * 8;
    let set = |bit: u64| {
        usize::try_from(bit / 8)
            .is_ok_and(|at| filter.get(at).is_some_and(|byte| byte & (1 << (bit % 8)) != 0))
    };
    bits == 0 || words.iter().all(|word| word.probes(bits).all(set))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_is_found_and_little_else() {
        let inside: Vec<Word> = (0..1_000).map(Word::claim).collect();
        let filter = build(&inside);
        assert!(inside.iter().all(|word| may_have(&filter, &[*word])));
        let wrong = (1_000..101_000).filter(|number| may_have(&filter, &[Word::claim(*number)])).count();
        assert!(wrong < 2_500, "{wrong} of 100,000 strangers let in");
    }

    #[test]
    fn words_of_different_kinds_differ() {
        assert_ne!(Word::actor("ana"), Word::item("ana"));
    }
}
