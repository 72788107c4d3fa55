//! A set of places: a bit for each, in pages; only pages that hold any exist. Adding or removing one touches one word,
//! however many there are, and the first is found at once.

use super::place::Place;

/// How many words a page has: as many as one word has bits.
const WORDS: usize = 64;
/// How many places a page covers.
const COVERED: u32 = (WORDS * 64) as u32;

/// The set.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Marks {
    /// By number; none is empty.
    pages: Vec<(u32, Box<Page>)>,
}

#[derive(Debug, Clone, PartialEq)]
struct Page {
    /// Which of the words have any bit.
    used: u64,
    words: [u64; WORDS],
}

impl Page {
    const EMPTY: Self = Self { used: 0, words: [0; WORDS] };

    fn places(&self, number: u32) -> impl DoubleEndedIterator<Item = Place> {
        Bits(self.used).flat_map(move |word| {
            let first = number * COVERED + word * 64;
            Bits(self.words[word as usize]).map(move |bit| Place(first + bit))
        })
    }
}

impl Marks {
    /// Whether it came, and was not there before.
    pub(super) fn insert(&mut self, place: Place) -> bool {
        let (number, word, bit) = split(place);
        let at = self.pages.binary_search_by_key(&number, |(number, _)| *number);
        let at = at.unwrap_or_else(|at| {
            self.pages.insert(at, (number, Box::new(Page::EMPTY)));
            at
        });
        let page = &mut self.pages[at].1;
        let came = page.words[word] & bit == 0;
        page.words[word] |= bit;
        page.used |= 1 << word;
        came
    }

    /// Whether it went, and was there before.
    pub(super) fn remove(&mut self, place: Place) -> bool {
        let (number, word, bit) = split(place);
        let Ok(at) = self.pages.binary_search_by_key(&number, |(number, _)| *number) else { return false };
        let page = &mut self.pages[at].1;
        let went = page.words[word] & bit != 0;
        page.words[word] &= !bit;
        if page.words[word] == 0 {
            page.used &= !(1 << word);
            if page.used == 0 {
                self.pages.remove(at);
            }
        }
        went
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Place> {
        self.pages.iter().flat_map(|(number, page)| page.places(*number))
    }
}

fn split(Place(place): Place) -> (u32, usize, u64) {
    (place / COVERED, (place % COVERED / 64) as usize, 1 << (place % 64))
}

/// The numbers of the bits of a word, from either end.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros();
            self.0 &= self.0 - 1;
            bit
        })
    }
}

impl DoubleEndedIterator for Bits {
    fn next_back(&mut self) -> Option<u32> {
        (self.0 != 0).then(|| {
            let bit = 63 - self.0.leading_zeros();
            self.0 &= !(1 << bit);
            bit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn marks_are_a_set_in_order(steps in prop::collection::vec((any::<bool>(), 0..20_000u32), 0..400)) {
            let (mut marks, mut set) = (Marks::default(), BTreeSet::new());
            for (comes, place) in steps {
                // Few places, so that the same ones come and go.
                let place = Place(place % 97 * 211);
                if comes {
                    prop_assert_eq!(marks.insert(place), set.insert(place));
                } else {
                    prop_assert_eq!(marks.remove(place), set.remove(&place));
                }
                prop_assert_eq!(marks.is_empty(), set.is_empty());
            }
            prop_assert!(marks.iter().eq(set.iter().copied()));
            prop_assert!(marks.iter().rev().eq(set.iter().rev().copied()));
            let again = set.iter().fold(Marks::default(), |mut again, place| {
                again.insert(*place);
                again
            });
            prop_assert_eq!(marks, again);
        }
    }
}
