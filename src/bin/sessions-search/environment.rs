//! What the program asks of the system: time now, where the store is, times as people write them.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sessions_search::Timestamp;

use crate::failure::Failure;

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::UNKNOWN)
}

/// The store's root: as given, else `$SESSIONS_SEARCH_STORE`, else the platform's data folder.
pub(crate) fn store_root(given: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        return Ok(path.clone());
    }
    if let Some(path) = non_empty("SESSIONS_SEARCH_STORE") {
        return Ok(path);
    }
    let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let data = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support"))
    } else if cfg!(windows) {
        non_empty("APPDATA").or_else(|| home.map(|home| home.join("AppData/Roaming")))
    } else {
        non_empty("XDG_DATA_HOME").filter(|p| p.is_absolute()).or_else(|| home.map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("sessions-search"))
        .ok_or_else(|| Failure::Input("no home folder is known: name the store with --store DIR".into()))
}

/// The folders where the programs keep their transcripts, those that are there.
pub(crate) fn transcript_places() -> Vec<PathBuf> {
    let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let places = [
        non_empty("OPENCLAW_STATE_DIR").or_else(|| below_home(".openclaw")),
        below_home(".clawdbot"),
        below_home(".moltbot"),
        below_home(".pi/agent/sessions"),
        non_empty("CLAUDE_CONFIG_DIR").or_else(|| below_home(".claude")).map(|config| config.join("projects")),
        non_empty("CODEX_HOME").or_else(|| below_home(".codex")).map(|config| config.join("sessions")),
        non_empty("CODEX_HOME").or_else(|| below_home(".codex")).map(|config| config.join("archived_sessions")),
        below_home(".gemini/tmp"),
    ];
    places.into_iter().flatten().filter(|place| place.is_dir()).collect()
}

fn non_empty(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Reads a time as the program takes it: RFC 3339, YYYY-MM-DD (UTC), whole milliseconds (0 is the earliest time there
/// is), or an age such as `7d`, `24h`, `30m` (D18).
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, Failure> {
    let text = text.trim();
    if let Ok(millis) = text.parse::<i64>() {
        // 0 is how an unknown time is stored, and no time that anything is known to be of.
        return Timestamp::from_millis(if millis == 0 { 1 } else { millis })
            .ok_or_else(|| Failure::Input(format!("{text} ms lies outside the years 1970 to 9999")));
    }
    if let Some(age) = parse_age(text) {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        return Timestamp::from_millis(now().as_millis().saturating_sub(age))
            .ok_or_else(|| Failure::Input(format!("{text} ago lies before 1970")));
    }
    Timestamp::parse_iso(text).map_err(|_| {
        Failure::Input(format!(
            "{text:?} is not a time: give RFC 3339 with its zone, YYYY-MM-DD (UTC), milliseconds, or an age such as 7d"
        ))
    })
}

/// `7d`, `24h`, `30m`, `2w`, `90s`.
fn parse_age(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    number.parse::<u32>().ok().map(|n| Duration::from_secs(u64::from(n) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        assert_eq!(parse_time("2026-07-01").unwrap().as_millis(), 1_782_864_000_000);
        assert_eq!(parse_time("1782864000000").unwrap().as_millis(), 1_782_864_000_000);
        let week = now().as_millis() - parse_time("7d").unwrap().as_millis();
        assert!((604_800_000..604_860_000).contains(&week));
        assert_eq!(parse_time("0").unwrap().as_millis(), 1);
        for wrong in ["", "d", "soon", "-5", "7y", "2026-13-01", "é"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
