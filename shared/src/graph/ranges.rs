//! Numbers of a configuration, checked against the ranges of its schema.

use serde_json::Value;

/// Checks every number of a configuration against the minimum and maximum in its schema, also within sections.
pub(super) fn in_range(config: &Value, schema: &Value) -> Result<(), String> {
    for (name, value) in config.as_object().into_iter().flatten() {
        let Some(field) = schema["properties"].get(name) else { continue };
        number_in_range(value, field, schema).map_err(|(key, why)| format!("{name}{key}: {why}"))?;
    }
    Ok(())
}

/// Returns the key below this value that is out of its range, and the reason. `root` has the definitions that schemas refer to.
fn number_in_range(value: &Value, schema: &Value, root: &Value) -> Result<(), (String, String)> {
    let target = schema["$ref"].as_str().and_then(|text| root.pointer(text.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    for (name, value) in value.as_object().into_iter().flatten() {
        let Some(field) = schema["properties"].get(name) else { continue };
        number_in_range(value, field, root).map_err(|(key, why)| (format!(".{name}{key}"), why))?;
    }
    let Some(is) = value.as_f64() else { return Ok(()) };
    if let Some(least) = schema["minimum"].as_f64().filter(|bound| is < *bound) {
        return Err((String::new(), format!("it is {is}, and must be at least {least}")));
    }
    if let Some(most) = schema["maximum"].as_f64().filter(|bound| is > *bound) {
        return Err((String::new(), format!("it is {is}, and must be at most {most}")));
    }
    Ok(())
}
