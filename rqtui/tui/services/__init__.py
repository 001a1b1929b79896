"""What the app can do, an object each: changes, loops, profiles, navigation, the palette."""
