//! The tools as they are declared: name, description, and the schemas of what goes in and out.

use serde_json::Value;

/// One tool as MCP declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    json: Value,
}

const FILES: [&str; 3] = [
    include_str!("../../index-schema/tools/sessions_search.json"),
    include_str!("../../index-schema/tools/sessions_history.json"),
    include_str!("../../index-schema/tools/sessions_list.json"),
];

impl ToolDefinition {
    /// The three tools.
    #[must_use]
    pub fn all() -> Vec<Self> {
        // A file that is no JSON fails a test, so it never gets this far.
        FILES.iter().filter_map(|file| serde_json::from_str(file).ok()).map(|json| Self { json }).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.json["name"].as_str().unwrap_or_default()
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.json["inputSchema"]
    }

    /// The schema of its answer.
    #[must_use]
    pub fn output_schema(&self) -> &Value {
        &self.json["outputSchema"]
    }

    /// The whole declaration.
    #[must_use]
    pub fn to_json(&self) -> &Value {
        &self.json
    }
}
