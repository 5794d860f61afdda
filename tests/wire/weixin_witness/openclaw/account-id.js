export const normalizeAccountId = (id) => id.replace(/[^A-Za-z0-9]+/g, "-");
