//! Which characters `cjk` takes one by one: those of scripts that are written without spaces, and emoji.
//!
//! `tests/it/cjk.rs` compares both tables with Unicode's properties.

/// What a character of a text (after NFKC) is for `cjk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A letter, mark or digit of a script without spaces.
    Unspaced,
    /// An emoji, or what modifies one.
    Emoji,
    /// Says how what stands before it is drawn, and no more: a variation selector.
    Selector,
    /// Not to be seen between two characters: a hint where a line may break, or how letters join.
    Joiner,
    /// A matter of `unicode-word`.
    Other,
}

/// The class of a character that is not ASCII; ASCII is a matter of `unicode-word`.
pub(super) fn class(c: char) -> Class {
    match c {
        ..'\u{E01}' => Class::Other,
        '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => Class::Selector,
        '\u{200B}'..='\u{200D}' | '\u{2060}' => Class::Joiner,
        _ if is_unspaced(c) => Class::Unspaced,
        // Tags tell flags of regions apart.
        '\u{E0020}'..='\u{E007F}' => Class::Emoji,
        _ if is_within(c, EMOJI) => Class::Emoji,
        _ => Class::Other,
    }
}

/// Whether a character belongs to a run of a script that is written without spaces between words.
#[must_use]
pub fn is_unspaced(c: char) -> bool {
    match c {
        ..'\u{E01}' => false,
        '\u{4E00}'..='\u{A48C}' | '\u{AC00}'..='\u{D7FB}' | '\u{3041}'..='\u{309A}' => true,
        _ => is_within(c, UNSPACED),
    }
}

/// Whether joiners inside a run of this character's script are hints for line breaking that writers may leave out.
pub(super) fn has_break_hints(c: char) -> bool {
    matches!(c, '\u{E01}'..='\u{109F}' | '\u{1780}'..='\u{1AAF}' | '\u{A9E0}'..='\u{AADF}')
}

fn is_within(c: char, ranges: &[(char, char)]) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= ranges[after - 1].1
}

/// Letters, marks and digits of Han, Hiragana, Katakana, Bopomofo, Hangul, Yi, Tangut, Nushu, Khitan, Thai, Lao, Khmer,
/// Myanmar, Tai Le, New Tai Lue, Tai Tham, Tai Viet, Ahom, Tibetan, Javanese and Balinese, with the marks that kana and
/// Han alone use. What Unicode has not assigned between two of them counts too, and so do the planes of Han.
#[rustfmt::skip]
const UNSPACED: &[(char, char)] = &[
    ('\u{E01}', '\u{E3A}'), ('\u{E40}', '\u{E4E}'), ('\u{E50}', '\u{E59}'), ('\u{E81}', '\u{EDF}'),
    ('\u{F00}', '\u{F00}'), ('\u{F18}', '\u{F19}'), ('\u{F20}', '\u{F33}'), ('\u{F35}', '\u{F35}'),
    ('\u{F37}', '\u{F37}'), ('\u{F39}', '\u{F39}'), ('\u{F3E}', '\u{F84}'), ('\u{F86}', '\u{FBC}'),
    ('\u{FC6}', '\u{FC6}'), ('\u{1000}', '\u{1049}'), ('\u{1050}', '\u{109D}'), ('\u{1100}', '\u{11FF}'),
    ('\u{1780}', '\u{17D3}'), ('\u{17D7}', '\u{17D7}'), ('\u{17DC}', '\u{17F9}'), ('\u{1950}', '\u{19DA}'),
    ('\u{1A20}', '\u{1A99}'), ('\u{1AA7}', '\u{1AA7}'), ('\u{1B00}', '\u{1B4C}'), ('\u{1B50}', '\u{1B59}'),
    ('\u{1B6B}', '\u{1B73}'), ('\u{3005}', '\u{3007}'), ('\u{3021}', '\u{302F}'), ('\u{3031}', '\u{3035}'),
    ('\u{3038}', '\u{303C}'), ('\u{3041}', '\u{309A}'), ('\u{309D}', '\u{309F}'), ('\u{30A1}', '\u{30FA}'),
    ('\u{30FC}', '\u{30FF}'), ('\u{3105}', '\u{318E}'), ('\u{31A0}', '\u{31BF}'), ('\u{31F0}', '\u{31FF}'),
    ('\u{3400}', '\u{4DBF}'), ('\u{4E00}', '\u{A48C}'), ('\u{A960}', '\u{A9C0}'), ('\u{A9CF}', '\u{A9D9}'),
    ('\u{A9E0}', '\u{A9FE}'), ('\u{AA60}', '\u{AA76}'), ('\u{AA7A}', '\u{AADD}'), ('\u{AC00}', '\u{D7FB}'),
    ('\u{F900}', '\u{FAD9}'), ('\u{FF66}', '\u{FF6F}'), ('\u{FF71}', '\u{FF9D}'), ('\u{FFA0}', '\u{FFDC}'),
    ('\u{116D0}', '\u{116E3}'), ('\u{11700}', '\u{1173B}'), ('\u{11740}', '\u{11746}'), ('\u{16FE0}', '\u{16FE1}'),
    ('\u{16FE3}', '\u{16FF1}'), ('\u{17000}', '\u{187F7}'), ('\u{18800}', '\u{18D08}'), ('\u{1AFF0}', '\u{1AFFE}'),
    ('\u{1B000}', '\u{1B2FB}'), ('\u{20000}', '\u{2FFFD}'), ('\u{30000}', '\u{3FFFD}'),
];

/// Extended pictographs but © and ®, regional indicators, skin tones.
#[rustfmt::skip]
const EMOJI: &[(char, char)] = &[
    ('\u{203C}', '\u{203C}'), ('\u{2049}', '\u{2049}'), ('\u{2122}', '\u{2122}'), ('\u{2139}', '\u{2139}'),
    ('\u{2194}', '\u{2199}'), ('\u{21A9}', '\u{21AA}'), ('\u{231A}', '\u{231B}'), ('\u{2328}', '\u{2328}'),
    ('\u{2388}', '\u{2388}'), ('\u{23CF}', '\u{23CF}'), ('\u{23E9}', '\u{23F3}'), ('\u{23F8}', '\u{23FA}'),
    ('\u{24C2}', '\u{24C2}'), ('\u{25AA}', '\u{25AB}'), ('\u{25B6}', '\u{25B6}'), ('\u{25C0}', '\u{25C0}'),
    ('\u{25FB}', '\u{25FE}'), ('\u{2600}', '\u{2605}'), ('\u{2607}', '\u{2612}'), ('\u{2614}', '\u{2685}'),
    ('\u{2690}', '\u{2705}'), ('\u{2708}', '\u{2712}'), ('\u{2714}', '\u{2714}'), ('\u{2716}', '\u{2716}'),
    ('\u{271D}', '\u{271D}'), ('\u{2721}', '\u{2721}'), ('\u{2728}', '\u{2728}'), ('\u{2733}', '\u{2734}'),
    ('\u{2744}', '\u{2744}'), ('\u{2747}', '\u{2747}'), ('\u{274C}', '\u{274C}'), ('\u{274E}', '\u{274E}'),
    ('\u{2753}', '\u{2755}'), ('\u{2757}', '\u{2757}'), ('\u{2763}', '\u{2767}'), ('\u{2795}', '\u{2797}'),
    ('\u{27A1}', '\u{27A1}'), ('\u{27B0}', '\u{27B0}'), ('\u{27BF}', '\u{27BF}'), ('\u{2934}', '\u{2935}'),
    ('\u{2B05}', '\u{2B07}'), ('\u{2B1B}', '\u{2B1C}'), ('\u{2B50}', '\u{2B50}'), ('\u{2B55}', '\u{2B55}'),
    ('\u{3030}', '\u{3030}'), ('\u{303D}', '\u{303D}'), ('\u{3297}', '\u{3297}'), ('\u{3299}', '\u{3299}'),
    ('\u{1F000}', '\u{1F0FF}'), ('\u{1F10D}', '\u{1F10F}'), ('\u{1F12F}', '\u{1F12F}'), ('\u{1F16C}', '\u{1F171}'),
    ('\u{1F17E}', '\u{1F17F}'), ('\u{1F18E}', '\u{1F18E}'), ('\u{1F191}', '\u{1F19A}'), ('\u{1F1AD}', '\u{1F1FF}'),
    ('\u{1F201}', '\u{1F20F}'), ('\u{1F21A}', '\u{1F21A}'), ('\u{1F22F}', '\u{1F22F}'), ('\u{1F232}', '\u{1F23A}'),
    ('\u{1F23C}', '\u{1F23F}'), ('\u{1F249}', '\u{1F53D}'), ('\u{1F546}', '\u{1F64F}'), ('\u{1F680}', '\u{1F6FF}'),
    ('\u{1F774}', '\u{1F77F}'), ('\u{1F7D5}', '\u{1F7FF}'), ('\u{1F80C}', '\u{1F80F}'), ('\u{1F848}', '\u{1F84F}'),
    ('\u{1F85A}', '\u{1F85F}'), ('\u{1F888}', '\u{1F88F}'), ('\u{1F8AE}', '\u{1F8FF}'), ('\u{1F90C}', '\u{1F93A}'),
    ('\u{1F93C}', '\u{1F945}'), ('\u{1F947}', '\u{1FAFF}'), ('\u{1FC00}', '\u{1FFFD}'),
];
