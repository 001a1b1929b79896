"""What a queue system is: places, keys and scripts; everything else is derived from them."""
