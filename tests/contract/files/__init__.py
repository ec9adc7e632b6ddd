"""What a place of files promises, on a disk, behind a URL and on a real S3 server alike."""
