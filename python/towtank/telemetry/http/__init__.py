"""What sources that ask an HTTP server share: where it is and how it is asked, bounded answers, its clock."""
