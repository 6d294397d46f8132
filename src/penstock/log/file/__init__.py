"""The file log: topics as folders of Arrow files."""
