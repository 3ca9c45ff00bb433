/** The command that shows or does the same as a view. */

/** Quotes an argument for a POSIX shell. */
export const quote = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** A command of turnfold that talks to the API of this page. */
export const command = (...parts: string[]): string =>
  ["turnfold", "--url", location.origin, ...parts].map(quote).join(" ");

/** A command of turnfold that reads the database, so it runs only where that is configured. */
export const databaseCommand = (...parts: string[]): string => ["turnfold", ...parts].map(quote).join(" ");

/** Copies a text. The clipboard's own interface is missing on pages without TLS. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
