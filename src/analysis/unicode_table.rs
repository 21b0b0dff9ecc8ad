//! What `unicode-word` does with each scalar, as a two-level table that the compiler builds from the generated runs.

use super::unicode_runs::RUNS;

/// What a run of scalars does, as the generated file writes it.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Separator.
    S,
    /// Token character that stays as it is.
    T,
    /// Dropped diacritic.
    D,
    /// Token character that folds to this ASCII letter.
    To(char),
    /// Token character that folds to the scalar this far away.
    Add(i32),
}

/// What to do with one scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It ends a token and is never part of one.
    Separate,
    /// It is part of a token, unchanged.
    Keep,
    /// Inside a token it adds nothing, but the token goes on; elsewhere it separates.
    Drop,
    /// It is part of a token, as this character.
    Replace(char),
}

/// The action of a scalar.
pub(super) fn action(c: char) -> Action {
    let scalar = c as u32;
    let page = TABLE.page_of[(scalar >> PAGE_BITS) as usize];
    match TABLE.pages[page as usize][scalar as usize % PAGE_SIZE] {
        SEPARATE => Action::Separate,
        KEEP => Action::Keep,
        DROP => Action::Drop,
        code if code < FIRST_DELTA => Action::Replace(code as char),
        code => {
            let folded = scalar.wrapping_add_signed(TABLE.deltas[(code - FIRST_DELTA) as usize]);
            Action::Replace(char::from_u32(folded).unwrap_or(c))
        }
    }
}

// One byte says it all. Codes 97 to 122 are the ASCII letter to fold to; from `FIRST_DELTA` on they number a distance.
const SEPARATE: u8 = 0;
const KEEP: u8 = 1;
const DROP: u8 = 2;
const FIRST_DELTA: u8 = 0x80;

const PAGE_BITS: u32 = 8;
const PAGE_SIZE: usize = 1 << PAGE_BITS;
const NUM_BLOCKS: usize = 0x11_0000 / PAGE_SIZE;

// Most of Unicode is one rule for whole blocks; those share a page.
const SEPARATE_PAGE: u8 = 0;
const KEEP_PAGE: u8 = 1;
const NUM_SHARED_PAGES: usize = 2;

const NUM_PAGES: usize = NUM_SHARED_PAGES + num_mixed_blocks();
const NUM_DELTAS: usize = (0xFF - FIRST_DELTA) as usize + 1;

struct Table {
    page_of: [u8; NUM_BLOCKS],
    pages: [[u8; PAGE_SIZE]; NUM_PAGES],
    deltas: [i32; NUM_DELTAS],
}

static TABLE: Table = build();

/// The scalar after run `index`.
const fn run_end(index: usize) -> usize {
    if index + 1 < RUNS.len() { RUNS[index + 1].0 as usize } else { NUM_BLOCKS * PAGE_SIZE }
}

/// The page all of block `block` shares when it lies inside run `index`.
const fn shared_page(block: usize, index: usize) -> Option<u8> {
    match RUNS[index].1 {
        _ if run_end(index) < (block + 1) * PAGE_SIZE => None,
        Rule::S => Some(SEPARATE_PAGE),
        Rule::T => Some(KEEP_PAGE),
        _ => None,
    }
}

const fn num_mixed_blocks() -> usize {
    let (mut count, mut run, mut block) = (0, 0, 0);
    while block < NUM_BLOCKS {
        while run_end(run) <= block * PAGE_SIZE {
            run += 1;
        }
        if shared_page(block, run).is_none() {
            count += 1;
        }
        block += 1;
    }
    count
}

const fn build() -> Table {
    const { assert!(NUM_PAGES <= 256, "a page number must fit a byte") };
    let mut table =
        Table { page_of: [0; NUM_BLOCKS], pages: [[SEPARATE; PAGE_SIZE]; NUM_PAGES], deltas: [0; NUM_DELTAS] };
    table.pages[KEEP_PAGE as usize] = [KEEP; PAGE_SIZE];
    let mut num_deltas = 0;
    let mut next_page = NUM_SHARED_PAGES;
    let (mut run, mut block) = (0, 0);
    while block < NUM_BLOCKS {
        while run_end(run) <= block * PAGE_SIZE {
            run += 1;
        }
        if let Some(page) = shared_page(block, run) {
            table.page_of[block] = page;
        } else {
            table.page_of[block] = next_page as u8;
            let mut index = 0;
            while index < PAGE_SIZE {
                if run_end(run) <= block * PAGE_SIZE + index {
                    run += 1;
                }
                table.pages[next_page][index] = match RUNS[run].1 {
                    Rule::S => SEPARATE,
                    Rule::T => KEEP,
                    Rule::D => DROP,
                    Rule::To(letter) => {
                        assert!(letter.is_ascii_lowercase());
                        letter as u8
                    }
                    Rule::Add(delta) => {
                        let mut number = 0;
                        while number < num_deltas && table.deltas[number] != delta {
                            number += 1;
                        }
                        if number == num_deltas {
                            table.deltas[number] = delta;
                            num_deltas += 1;
                        }
                        FIRST_DELTA + number as u8
                    }
                };
                index += 1;
            }
            next_page += 1;
        }
        block += 1;
    }
    table
}
