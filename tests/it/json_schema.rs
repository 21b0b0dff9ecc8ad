//! As much of JSON Schema as the tools' schemas use, to hold real answers against them.

use serde_json::Value;

/// What of `value` the schema does not allow; empty when all is well. A keyword it does not know is an error.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "$", &mut found);
    found
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("type {other}"),
    }
}

fn check(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        let ok = match keyword.as_str() {
            "description" | "default" | "title" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is_of_type(name.as_str().unwrap(), value)),
                name => is_of_type(name.as_str().unwrap(), value),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= rule.as_u64().unwrap()),
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{at}[{n}]"), found);
                }
                true
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        check(rule, field, &format!("{at}.{name}"), found);
                    }
                }
                true
            }
            "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                value
                    .as_object()
                    .is_none_or(|fields| fields.keys().all(|name| schema["properties"].get(name).is_some()))
            }
            "oneOf" => rule.as_array().unwrap().iter().filter(|one| violations(one, value).is_empty()).count() == 1,
            other => panic!("keyword {other} at {at}"),
        };
        if !ok {
            found.push(format!("{at}: {keyword}"));
        }
    }
}
