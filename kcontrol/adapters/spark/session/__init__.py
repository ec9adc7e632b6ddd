"""A Spark session and its processes: settings, JVM, start-up, versions."""
