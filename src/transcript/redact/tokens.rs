//! Secrets known by their own look (contract §8.4, classes 9, 12, 13, 19 to 25, and §8.5).

use std::ops::Range;

use super::rule::{Finds, Rule, proof};

/// A token that begins with one of the prefixes, goes on as the pattern says, and ends where its characters do: what is
/// longer than expected is masked whole.
macro_rules! vendor {
    ($name:literal, $prefixes:literal, $tail:literal, $proof:expr) => {
        Rule {
            name: $name,
            pattern: concat!(r"(?:(?-u:\b)|\\[nrt])((?:", $prefixes, ")", $tail, "[A-Za-z0-9_-]*)"),
            trigger: concat!(r"(?:(?-u:\b)|\\[nrt])(?:", $prefixes, ")", $tail),
            finds: Finds::Token(always),
            proof: $proof,
        }
    };
}

/// Passwords in URLs, before the labels: a user may be called `token`.
pub(super) static URL_PASSWORDS: &[Rule] = &[
    Rule {
        name: "url-password",
        pattern: r#"(?i-u:(?:https?|wss?|s?ftps?)://)[^\s/?#@:"'`<>]*:([^\s/?#"'`<>]+)@"#,
        trigger: r#"(?i-u:(?:http|ws|ftp)s?://)[^\s/?#@:"'`<>]*:[^\s/?#"'`<>]+@"#,
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[
                ("https://u:pw@host/", "https://u:***@host/"),
                ("ws://u:otterotterotterotter@h", "ws://u:ottero…tter@h"),
                ("https://:otter@h", "https://:***@h"),
                ("https://token:otter@h/a?b=c", "https://token:***@h/a?b=c"),
                ("ftp://u:p@ss@h", "ftp://u:***@h"),
            ],
            kept: &["https://host:8080/a@b", "https://user@host/", "https://host/?a:b@c", "https://u:***@host/"],
        },
    },
    Rule {
        name: "database-password",
        pattern: concat!(
            r"(?i-u:(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|valkeys?|amqps?|mssql|sqlserver|oracle|clickhouse",
            r#"|cockroachdb|nats|mqtts?|ldaps?|smtps?|imaps?|ssh|git)(?:\+[a-z0-9]+)?://)[^\s/@:"'`<>]*:([^\s/"'`<>]+)@"#
        ),
        trigger: r#"(?i-u:[a-z0-9]://)[^\s/@:"'`<>]*:[^\s/"'`<>]+@"#,
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[
                ("postgres://svc:correcthorsebatterystaple@db/x", "postgres://svc:correc…aple@db/x"),
                ("mongodb+srv://u:otter@h/app", "mongodb+srv://u:***@h/app"),
                ("redis://:ot#ter?@h:6379/0", "redis://:***@h:6379/0"),
                ("jdbc:mysql://u:otter@h", "jdbc:mysql://u:***@h"),
                ("amqps://u:otter@h", "amqps://u:***@h"),
            ],
            kept: &["postgres://localhost:5432/db", "postgres://svc@db/x"],
        },
    },
];

/// The tokens, in the order in which they are looked for.
pub(super) static TOKENS: &[Rule] = &[
    Rule {
        name: "bearer",
        pattern: r"(?:(?-u:\b)|\\[nrt])(?i-u:bearer)(?:[ \t]+|\\t)([A-Za-z0-9._~+/=-]{18,})",
        trigger: r"(?i-u:bearer)(?:[ \t]+|\\t)[A-Za-z0-9._~+/=-]{18}",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[("failed: Bearer otterotterotterotter;", "failed: Bearer ottero…tter;")],
            kept: &["Bearer of the letter", "Bearer otter"],
        },
    },
    Rule {
        name: "slack-webhook",
        pattern: r"(?i-u:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/)(?:[A-Za-z0-9]+/)+([A-Za-z0-9]{6,})",
        trigger: r"(?i-u:hooks\.slack(?:-gov)?\.com/)",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[(
                concat!("https://hooks.slack", ".com/services/TOTTER/BOTTER/otterotterotterotter"),
                concat!("https://hooks.slack", ".com/services/TOTTER/BOTTER/ottero…tter"),
            )],
            kept: &["https://hooks.slack.com/services/"],
        },
    },
    Rule {
        name: "discord-webhook",
        pattern: r"(?i-u:discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/)[0-9]+/([A-Za-z0-9_-]{10,})",
        trigger: r"(?i-u:discord(?:app)?\.com/api/)",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[(
                concat!("https://discord", ".com/api/webhooks/123456/otter_otter-otterotter"),
                concat!("https://discord", ".com/api/webhooks/123456/otter_…tter"),
            )],
            kept: &["https://discord.com/api/webhooks/"],
        },
    },
    Rule {
        name: "telegram",
        pattern: r"(?:(?-u:\b)|\\[nrt]|(?i-u:bot))([0-9]{6,}:[A-Za-z0-9_-]{20,})",
        trigger: r"[0-9]{6}:[A-Za-z0-9_-]{20}",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[
                ("9876543:AAbbCCddEEffGGhhIIjjKKll", "987654…KKll"),
                ("https://h/bot9876543:AAbbCCddEEffGGhhIIjjKKll/getMe", "https://h/bot987654…KKll/getMe"),
            ],
            kept: &["9876543:AAbbCC", "at 120000:30"],
        },
    },
    Rule {
        name: "jwt",
        pattern: r"(?:(?-u:\b)|\\[nrt])(eyJ[A-Za-z0-9_-]{7,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}[A-Za-z0-9_.-]*)",
        trigger: r"eyJ[A-Za-z0-9_-]{7,}\.[A-Za-z0-9_-]{10}",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[("see eyJotterotter.otterotterotter.otterotterabcd now", "see eyJott…abcd now")],
            kept: &["eyJotterotter.otter.otter", "keyJotterotter.otterotterotter.otterotterotter"],
        },
    },
    Rule {
        name: "aws-key-id",
        pattern: r"(?:(?-u:\b)|\\[nrt])((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?-u:\b)",
        trigger: r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[
                (concat!("id AK", "IAOTTEROTTEROTTER1 ok"), "id AKIAOT…TER1 ok"),
                (concat!("/buckets/AS", "IAOTTEROTTEROTTER1/o"), "/buckets/ASIAOT…TER1/o"),
            ],
            kept: &["AKIAOTTER", "xxxxAKIAOTTEROTTEROTTER1qrst", "akiaotterotterotter1"],
        },
    },
    Rule {
        name: "app-password",
        pattern: r"(?:(?-u:\b)|\\[nrt])((?i-u:[a-z]{4}-[a-z]{4}-[a-z]{4}-[a-z]{4}))(?-u:\b)",
        trigger: r"(?i-u:[a-z]{4}-[a-z]{4}-[a-z]{4}-[a-z]{4})",
        finds: Finds::Token(is_app_password),
        proof: proof! {
            masked: &[
                ("the app password is otte-rott-erot-tero", "the app password is otte-r…tero"),
                ("otte-rott-erot-tero as app-specific password", "otte-r…tero as app-specific password"),
            ],
            kept: &["otte-rott-erot-tero", "password\notte-rott-erot-tero"],
        },
    },
    Rule {
        name: "discord-bot",
        pattern: r"(?:(?-u:\b)|\\[nrt])([A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,})",
        trigger: r"\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27}",
        finds: Finds::Token(is_discord_token),
        proof: proof! {
            masked: &[(
                "my Discord bot: otterotterotterotterotte.rotter.otterotterotterotterotterot",
                "my Discord bot: ottero…erot",
            )],
            kept: &["otterotterotterotterotte.rotter.otterotterotterotterotterot"],
        },
    },
    Rule {
        name: "fernet",
        pattern: r"(?:^|[^A-Za-z0-9+]|\\[nrt])(gAAAA[A-Za-z0-9_-]{20,}={0,2})",
        trigger: r"gAAAA[A-Za-z0-9_-]{20}",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[
                ("gAAAAotterotterotterotterot==", "gAAAAo…ot=="),
                ("https://h/reset/gAAAAotterotterotterotterot now", "https://h/reset/gAAAAo…erot now"),
            ],
            kept: &["gAAAAotter", "xgAAAAotterotterotterotterot"],
        },
    },
    vendor!(
        "sk",
        "(?i-u:sk-)",
        "[A-Za-z0-9_-]{8}",
        proof! {
            masked: &[
                ("sk-otterotterotterotter", "sk-ott…tter"),
                ("key sk-ant-otterotterotter, ok", "key sk-ant…tter, ok"),
                ("密钥sk-otterotterotterotter。", "密钥sk-ott…tter。"),
                (r"a\nsk-otterotterotterotter", r"a\nsk-ott…tter"),
            ],
            kept: &["sk-abc", "sk-learn", "task-management", "disk-usage-monitor"],
        }
    ),
    vendor!(
        "vendor-words",
        "(?i-u:gh[oprsu]_|github_pat_|gsk_|pplx-|fal_|fc-|npm_|pypi-|[rs]k_(?:live|test)_|am_|sk_|tvly-|exa_|hsk-|mem0_\
         |brv_|hf_|r8_|bb_(?:live|test)_|retaindb_|do[opr]_v1_|whsec_|shp(?:at|ca|pa|ss)_|lin_api_|figd_|ntn_|rubygems_\
         |jina_|ph[cx]_|nvapi-|csk-|xkeysib-|gocspx-|lsv2_(?:pt|sk)_|sntry[su]_|pscale_(?:tkn|pw|oauth)_|pmak-\
         |sq0(?:atp|csp)-|shippo_(?:live|test)_)",
        "[A-Za-z0-9]{10}",
        proof! {
            masked: &[
                (concat!("gh", "p_otterotterotterotter"), "ghp_ot…tter"),
                (concat!("prefix-gh", "o_otterotterotterotter end"), "prefix-gho_ot…tter end"),
                (concat!("sk", "_live_otterotterotter"), "sk_liv…tter"),
                (concat!("hf", "_otterotte1"), "***"),
            ],
            kept: &["npm_config_registry", "team_management_for_otters", "sk_buff", "pypi-publish-action", "hf_hub_download"],
        }
    ),
    vendor!(
        "vendor-dashes",
        "(?i-u:xox[a-z]-|xoxe\\.xox[a-z]-|xapp-|syt_)",
        "[A-Za-z0-9_-]{10}",
        proof! {
            masked: &[
                (concat!("xo", "xb-1234567890-otterotter"), "xoxb-1…tter"),
                (concat!("xa", "pp-1-A0OTTER-otter"), "xapp-1…tter"),
                (concat!("sy", "t_Ym9i_otterotterotter"), "syt_Ym…tter"),
            ],
            kept: &["xoxb-docs", "xapp-1-a"],
        }
    ),
    vendor!(
        "vendor-glued",
        "ya29\\.|1//0|AKID|LTAI",
        "[A-Za-z0-9_-]{10}",
        proof! {
            masked: &[
                (concat!("ya", "29.otterotterotterotter"), "ya29.o…tter"),
                (concat!("1/", "/0otterotterotterotter"), "1//0ot…tter"),
                (concat!("SecretId AK", "IDotterotterotter1"), "SecretId AKIDot…ter1"),
                (concat!("AccessKeyId=LT", "AIotterotterotter1"), "AccessKeyId=LTAIot…ter1"),
            ],
            kept: &["AKIDotter", "1//0tter"],
        }
    ),
    vendor!(
        "vendor-twenty",
        "AIza|(?i-u:api_org_|tskey-[a-z]+-|dckr_(?:[a-z]+_)?|hv[bs]\\.)",
        "[A-Za-z0-9_-]{20}",
        proof! {
            masked: &[
                (concat!("AI", "zaotterotterotterotter"), "AIzaot…tter"),
                (concat!("dckr", "_pat_otterotterotterotter"), "dckr_p…tter"),
            ],
            kept: &["AIzaotter", "dckr_pat_docs"],
        }
    ),
    vendor!(
        "gitlab",
        "(?i-u:gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct)-|GR1348941)",
        "[A-Za-z0-9_-]{20,}(?:\\.[A-Za-z0-9_]+)*",
        proof! {
            masked: &[
                (concat!("gl", "pat-otterotterotterotter"), "glpat-…tter"),
                (concat!("gl", "rt-otterotterotterotter.01.otterotte"), "glrt-o…otte"),
            ],
            kept: &["glpat-docs", "glrt-docs", "GR1348941-docs"],
        }
    ),
    vendor!(
        "vendor-thirty",
        "(?i-u:xai-|fw[-_]|fpk_)",
        "[A-Za-z0-9_-]{30}",
        proof! {
            masked: &[(concat!("xa", "i-otterotterotterotterotterotter"), "xai-ot…tter")],
            kept: &["fw-tooshort", "fixture_fw_otterotterotterotterotterotter", "xai-otterotterotter"],
        }
    ),
    vendor!(
        "vendor-shapes",
        "SG\\.[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10}\
         |dp\\.(?:pt|st|ct|sa|scim|audit)\\.(?:[a-z0-9_-]+\\.)?[A-Za-z0-9]{40}\
         |bkua_[a-z0-9]{40}|sbp_[a-z0-9]{40}|dapi[a-f0-9]{32}|dd[pw]_[A-Za-z0-9]{36}|glsa_[A-Za-z0-9_]{41}\
         |glc_eyJ[A-Za-z0-9+/=_-]{20,}|ops_eyJ[A-Za-z0-9_-]{20}|nfp_[A-Za-z0-9]{36}|CFPAT-[A-Za-z0-9_-]{40}\
         |CCIPAT_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40}|AT(?:CTT3|ATT)[A-Za-z0-9_=-]{40,}|ATBB[A-Za-z0-9]{20}\
         |BBDC-[A-Za-z0-9+/]{40,}|HRKU-AA[A-Za-z0-9_-]{50}|pat-[a-z]{2}[0-9]-[A-Za-z0-9-]{30}|apify_api_[A-Za-z0-9]{30}\
         |FlyV1 f[a-z0-9]+_[A-Za-z0-9+/=,_-]{20,}|fio-u-[A-Za-z0-9_-]{60}|AGE-SECRET-KEY-1[A-Z0-9]{50}\
         |(?:key-|SK)[a-f0-9]{32}",
        "",
        proof! {
            masked: &[
                (concat!("S", "G.otterotterotter.otterotterotter"), "SG.ott…tter"),
                ("FlyV1 fm2_otter/otter+otterotter=", "FlyV1 …ter="),
            ],
            kept: &["SG.otter.sea", "dapi-example", "sbp_short", "nfp_site", "CCIPAT_docs", "ATATT-example", "key-value"],
        }
    ),
    Rule {
        name: "gitlab-session",
        pattern: "_gitlab_session=([A-Za-z0-9]{20,})",
        trigger: "_gitlab_session=",
        finds: Finds::Token(always),
        proof: proof! {
            masked: &[("_gitlab_session=otterotterotterotter", "_gitlab_session=ottero…tter")],
            kept: &["_gitlab_session=short"],
        },
    },
];

/// Keys of 40 characters without a label. Looked for only where [`has_long_run`] says so.
pub(super) static LONG_RUN: Rule = Rule {
    name: "aws-secret",
    pattern: AWS_SECRET,
    trigger: AWS_SECRET,
    finds: Finds::Token(is_aws_secret),
    proof: proof! {
        masked: &[(
            concat!("then Otter/Otter0Otter/Otter0", "Otter/Otter0AB1z ok"),
            "then Otter/…AB1z ok",
        )],
        kept: &[
            // A commit, a path, part of something longer.
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "src/otter/otter/otter/otter/otter/otter1",
            "see https://h/Otter/Otter0Otter/Otter0Otter/Otter0AB1z",
            "Otter/Otter0Otter/Otter0Otter/Otter0AB1z-x",
            "Otter/Otter0Otter/Otter0Otter/Otter0AB1zxx",
        ],
    },
};

const AWS_SECRET: &str = r"(?:\\[nrt])?([A-Za-z0-9/+]{40,})";
const AWS_SECRET_BYTES: usize = 40;

fn is_run_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+')
}

/// Whether the text holds a run that may be a bare key. Looks at one byte in forty where words are short.
pub(super) fn has_long_run(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut start = 0;
    while let Some(window) = bytes.get(start..start + AWS_SECRET_BYTES) {
        match window.iter().rposition(|&byte| !is_run_byte(byte)) {
            Some(last) => start += last + 1,
            None => return true,
        }
    }
    false
}

fn always(_: &str, _: &Range<usize>) -> bool {
    true
}

/// Exactly 40 characters of every class, with nothing glued to them, and no part of a public URL.
fn is_aws_secret(text: &str, range: &Range<usize>) -> bool {
    let key = text[range.clone()].as_bytes();
    let has = |class: fn(&u8) -> bool| key.iter().any(class);
    let is_glued = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_ascii_alphanumeric());
    let before = &text[..range.start];
    let is_escape = [r"\n", r"\r", r"\t"].iter().any(|escape| before.ends_with(escape));
    // A full stop or a dash joins two words only where both are there.
    let joins = ['.', '-', '%'];
    let (before, after) = (before.trim_end_matches(joins), text[range.end..].trim_start_matches(joins));
    key.len() == AWS_SECRET_BYTES
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && has(|b| !b.is_ascii_hexdigit())
        && (is_escape || !is_glued(before.chars().next_back()))
        && !is_glued(after.chars().next())
        && !after.starts_with('=')
        && !is_in_url(text, range.start)
}

/// Whether the word around `at` is a URL without a user. Looks back as far as URLs are long.
fn is_in_url(text: &str, at: usize) -> bool {
    let before = &text[text.floor_char_boundary(at.saturating_sub(2_048))..at];
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '\\' | ',' | '(' | '[' | '{');
    let word = before.rfind(is_end).map_or(before, |space| &before[space..]);
    word.contains("://") && !word.contains('@')
}

fn is_app_password(text: &str, range: &Range<usize>) -> bool {
    is_near(text, range, &["password", "passwd", "passcode", "app-specific", "app specific"])
}

fn is_discord_token(text: &str, range: &Range<usize>) -> bool {
    is_near(text, range, &["discord"])
}

/// Characters within which [`is_near`] looks, on either side.
const NEAR_CHARS: usize = 80;

/// Whether one of the words, in any letter case, stands near the range on its line.
fn is_near(text: &str, range: &Range<usize>, words: &[&str]) -> bool {
    let on_line = |c: &char| !matches!(c, '\n' | '\r');
    let before: Vec<char> = text[..range.start].chars().rev().take(NEAR_CHARS).take_while(on_line).collect();
    let before: String = before.into_iter().rev().collect();
    let after: String = text[range.end..].chars().take(NEAR_CHARS).take_while(on_line).collect();
    [before, after].iter().any(|side| {
        let side = side.to_ascii_lowercase();
        words.iter().any(|word| side.contains(word))
    })
}
