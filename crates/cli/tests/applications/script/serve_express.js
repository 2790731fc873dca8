// Serves the Express application of a directory on a free port, and prints the port.
"use strict";

const app = require(`${process.argv[2]}/app.js`);

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
