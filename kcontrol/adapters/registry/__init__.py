"""A registry of schemas that speaks Confluent's REST interface: Confluent's own, Karapace, Apicurio's `ccompat`."""
