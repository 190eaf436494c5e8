"""Every sentence and every word of a closed list, in three languages: data alone."""
