"""What both servers, the Partner API and the console, need of HTTP; it knows neither."""
