"""The control topic and the topics of steps: read and written as logs."""
